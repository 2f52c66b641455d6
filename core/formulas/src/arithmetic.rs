//! [`Arithmetic`] of products, [`KvType`] of caches.

/// How products are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Arithmetic {
    /// Quantized weights times activations rounded to 8 bits, as llama.cpp does: one scale per 32 values for the
    /// 32-wide formats and NVFP4, per 256 for the others. F32 and F16 weights: f32 arithmetic. BF16 weights:
    /// activations rounded to bfloat16, sums in f32.
    #[default]
    Fast,
    /// Weights dequantized, f32 arithmetic.
    Exact,
}

names! {
    /// The format of the rows of a KV cache.
    #[derive(Eq, Hash)]
    pub enum KvType {
        /// Four bytes, exact.
        F32 = "f32",
        /// Two bytes, rounded to nearest even.
        F16 = "f16",
        /// GGML's `Q8_0`: 34 bytes for 32 elements.
        Q8_0 = "q8_0",
    }
}

impl KvType {
    /// Elements of a `Q8_0` block.
    pub const Q8_0_LEN: usize = 32;
    /// Bytes of a `Q8_0` block: an f16 scale, then 32 signed bytes.
    pub const Q8_0_BYTES: usize = 34;

    /// Bytes of `elements` consecutive elements; `None` if they do not fill whole blocks, or the number overflows.
    pub fn row_bytes(self, elements: usize) -> Option<usize> {
        match self {
            Self::F32 => elements.checked_mul(4),
            Self::F16 => elements.checked_mul(2),
            Self::Q8_0 if elements.is_multiple_of(Self::Q8_0_LEN) => {
                (elements / Self::Q8_0_LEN).checked_mul(Self::Q8_0_BYTES)
            }
            Self::Q8_0 => None,
        }
    }

    /// The type of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.name() == name)
    }
}

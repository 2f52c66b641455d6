//! The types of weights: plain floats and quantized blocks, with their sizes and ids.

use std::fmt;

macro_rules! types {
    ($(#[$about:meta])* $kind:ident as $side:ident { $($(#[$doc:meta])* $name:ident = $id:literal, $len:literal, $bytes:literal;)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[allow(non_camel_case_types, reason = "the names are ggml's")]
        pub enum $kind { $($(#[$doc])* $name,)* }

        impl $kind {
            /// Every one, in the order of the ggml ids.
            pub const ALL: &'static [$kind] = &[$($kind::$name),*];

            /// The type with this id in a GGUF file.
            pub const fn from_ggml_id(id: u32) -> Option<Self> {
                match id { $($id => Some($kind::$name),)* _ => None }
            }

            /// The id in a GGUF file.
            pub const fn ggml_id(self) -> u32 {
                match self { $($kind::$name => $id,)* }
            }

            /// The name, as ggml spells it.
            pub const fn name(self) -> &'static str {
                match self { $($kind::$name => stringify!($name),)* }
            }

            /// How many values one block holds.
            pub const fn block_len(self) -> usize {
                match self { $($kind::$name => $len,)* }
            }

            /// How many bytes one block takes.
            pub const fn block_bytes(self) -> usize {
                match self { $($kind::$name => $bytes,)* }
            }
        }

        impl BlockType {
            $($(#[$doc])* pub const $name: BlockType = BlockType::$side($kind::$name);)*
        }

        impl From<$kind> for BlockType {
            fn from(kind: $kind) -> BlockType {
                BlockType::$side(kind)
            }
        }
    };
}

types! {
    /// A plain float: blocks of one value.
    FloatType as Float {
    /// 32-bit floats.
    F32 = 0, 1, 4;
    /// 16-bit floats (IEEE half).
    F16 = 1, 1, 2;
    /// 16-bit floats with the exponent of an f32.
    BF16 = 30, 1, 2;
}}

types! {
    /// A quantized block type, named as ggml names it (`ggml_type` in ggml.h).
    QuantType as Quant {
    /// 4 bits, one f16 scale per 32.
    Q4_0 = 2, 32, 18;
    /// 4 bits, one f16 scale and minimum per 32.
    Q4_1 = 3, 32, 20;
    /// 5 bits, one f16 scale per 32.
    Q5_0 = 6, 32, 22;
    /// 5 bits, one f16 scale and minimum per 32.
    Q5_1 = 7, 32, 24;
    /// 8 bits, one f16 scale per 32.
    Q8_0 = 8, 32, 34;
    /// 2 bits, 4-bit scale and minimum per 16, f16 factors per 256.
    Q2_K = 10, 256, 84;
    /// 3 bits, 6-bit scale per 16, f16 factor per 256.
    Q3_K = 11, 256, 110;
    /// 4 bits, 6-bit scale and minimum per 32, f16 factors per 256.
    Q4_K = 12, 256, 144;
    /// 5 bits, 6-bit scale and minimum per 32, f16 factors per 256.
    Q5_K = 13, 256, 176;
    /// 6 bits, 8-bit scale per 16, f16 factor per 256.
    Q6_K = 14, 256, 210;
    /// Codebook of 256 groups of eight, 4-bit scale per 32.
    IQ2_XXS = 16, 256, 66;
    /// Codebook of 512 groups of eight, 4-bit scale per 16.
    IQ2_XS = 17, 256, 74;
    /// Codebook of 256 groups of four, 4-bit scale per 32.
    IQ3_XXS = 18, 256, 98;
    /// Codebook of 2048 groups of eight values -1, 0, 1; 3-bit scale per 32.
    IQ1_S = 19, 256, 50;
    /// Sixteen uneven levels, f16 scale per 32.
    IQ4_NL = 20, 32, 18;
    /// Codebook of 512 groups of four, 4-bit scale per 32.
    IQ3_S = 21, 256, 110;
    /// Codebook of 1024 groups of eight, 4-bit scale per 16.
    IQ2_S = 22, 256, 82;
    /// Sixteen uneven levels, 6-bit scale per 32, f16 factor per 256.
    IQ4_XS = 23, 256, 136;
    /// Like IQ1_S, with a 3-bit scale per 16.
    IQ1_M = 29, 256, 56;
    /// Values -1, 0, 1; five to a byte; f16 scale per 256.
    TQ1_0 = 34, 256, 54;
    /// Values -1, 0, 1 in two bits; f16 scale per 256.
    TQ2_0 = 35, 256, 66;
    /// OCP microscaling: e2m1 values, one power of two per 32.
    MXFP4 = 39, 32, 17;
    /// e2m1 values, an unsigned e4m3 scale per 16, blocks of 64.
    NVFP4 = 40, 64, 36;
}}

/// The type of a weight tensor: a plain float or a quantized block. Every type also has a name here
/// (`BlockType::Q4_K`), which serves as a pattern too.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub enum BlockType {
    /// A plain float.
    Float(FloatType),
    /// A quantized block type.
    Quant(QuantType),
}

impl fmt::Debug for BlockType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The floats and the quantized types in one list.
const ALL: [BlockType; FloatType::ALL.len() + QuantType::ALL.len()] = {
    let mut all = [BlockType::F32; FloatType::ALL.len() + QuantType::ALL.len()];
    let mut i = 0;
    while i < all.len() {
        all[i] = match i.checked_sub(FloatType::ALL.len()) {
            None => BlockType::Float(FloatType::ALL[i]),
            Some(i) => BlockType::Quant(QuantType::ALL[i]),
        };
        i += 1;
    }
    all
};

impl BlockType {
    /// Every type: first the floats, then the quantized ones, each in the order of the ggml ids.
    pub const ALL: &'static [BlockType] = &ALL;

    /// The type with this id in a GGUF file, if this crate can compute with it.
    pub fn from_ggml_id(id: u32) -> Option<Self> {
        FloatType::from_ggml_id(id).map(Self::Float).or(QuantType::from_ggml_id(id).map(Self::Quant))
    }

    /// The id of the type in a GGUF file.
    pub const fn ggml_id(self) -> u32 {
        match self {
            BlockType::Float(kind) => kind.ggml_id(),
            BlockType::Quant(kind) => kind.ggml_id(),
        }
    }

    /// The name of the type, as ggml spells it.
    pub const fn name(self) -> &'static str {
        match self {
            BlockType::Float(kind) => kind.name(),
            BlockType::Quant(kind) => kind.name(),
        }
    }

    /// How many values one block holds.
    pub const fn block_len(self) -> usize {
        match self {
            BlockType::Float(kind) => kind.block_len(),
            BlockType::Quant(kind) => kind.block_len(),
        }
    }

    /// How many bytes one block takes.
    pub const fn block_bytes(self) -> usize {
        match self {
            BlockType::Float(kind) => kind.block_bytes(),
            BlockType::Quant(kind) => kind.block_bytes(),
        }
    }

    /// The bytes of one row of `cols` values; `None` if blocks do not divide `cols`.
    pub fn row_bytes(self, cols: usize) -> Option<usize> {
        if !cols.is_multiple_of(self.block_len()) {
            return None;
        }
        (cols / self.block_len()).checked_mul(self.block_bytes())
    }
}

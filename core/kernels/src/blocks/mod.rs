//! The weight blocks of GGUF files: their sizes and ids, matrices of them, and their dequantisation.
#![cfg_attr(
    not(target_arch = "x86_64"),
    allow(dead_code, unused_imports, reason = "what the x86-64 kernels use")
)]

mod dequantise;
mod format;
mod four_bit;
mod grid;
mod half_float;
mod k_quants;
mod matrix;
mod tables;
mod ternary;
#[cfg(test)]
mod tests;

pub use dequantise::dequantise;
pub(crate) use dequantise::dequantise_row;
pub(crate) use format::{Format, GROUPS, SUPER, with_format};
pub(crate) use four_bit::{
    IQ4_LEVELS, Iq4Nl, MXFP4_LEVELS, Mxfp4, Nvfp4, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, e8m0_half,
};
pub(crate) use grid::{Iq1M, Iq1S, Iq2S, Iq2Xs, Iq2Xxs, Iq3S, Iq3Xxs};
#[cfg(test)]
pub(crate) use half_float::f16_to_f32;
pub(crate) use k_quants::{Iq4Xs, Q2K, Q3K, Q4K, Q5K, Q6K};
pub use matrix::Matrix;
pub(crate) use ternary::{Tq1_0, Tq2_0};

macro_rules! block_types {
    ($($(#[$doc:meta])* $name:ident = $id:literal, $len:literal, $bytes:literal;)*) => {
        /// The element or block type of a weight tensor, named as ggml names it (`ggml_type` in ggml.h).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[allow(non_camel_case_types)]
        pub enum BlockType { $($(#[$doc])* $name,)* }

        impl BlockType {
            /// Every type, in the order of the ggml ids.
            pub const ALL: &'static [BlockType] = &[$(BlockType::$name),*];

            /// The type with this id in a GGUF file, if it can be computed with here.
            pub fn from_ggml_id(id: u32) -> Option<Self> {
                match id { $($id => Some(BlockType::$name),)* _ => None }
            }

            /// The id of the type in a GGUF file.
            pub fn ggml_id(self) -> u32 {
                match self { $(BlockType::$name => $id,)* }
            }

            /// The name of the type, as ggml spells it.
            pub fn name(self) -> &'static str {
                match self { $(BlockType::$name => stringify!($name),)* }
            }

            /// How many values one block holds.
            pub fn block_len(self) -> usize {
                match self { $(BlockType::$name => $len,)* }
            }

            /// How many bytes one block takes.
            pub fn block_bytes(self) -> usize {
                match self { $(BlockType::$name => $bytes,)* }
            }
        }
    };
}

block_types! {
    /// 32-bit floats.
    F32 = 0, 1, 4;
    /// 16-bit floats (IEEE half).
    F16 = 1, 1, 2;
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
    /// Code book of 256 groups of eight, 4-bit scale per 32.
    IQ2_XXS = 16, 256, 66;
    /// Code book of 512 groups of eight, 4-bit scale per 16.
    IQ2_XS = 17, 256, 74;
    /// Code book of 256 groups of four, 4-bit scale per 32.
    IQ3_XXS = 18, 256, 98;
    /// Code book of 2048 groups of eight values -1, 0, 1; 3-bit scale per 32.
    IQ1_S = 19, 256, 50;
    /// Sixteen uneven levels, f16 scale per 32.
    IQ4_NL = 20, 32, 18;
    /// Code book of 512 groups of four, 4-bit scale per 32.
    IQ3_S = 21, 256, 110;
    /// Code book of 1024 groups of eight, 4-bit scale per 16.
    IQ2_S = 22, 256, 82;
    /// Sixteen uneven levels, 6-bit scale per 32, f16 factor per 256.
    IQ4_XS = 23, 256, 136;
    /// As IQ1_S, with a 3-bit scale per 16.
    IQ1_M = 29, 256, 56;
    /// 16-bit floats with the exponent of an f32.
    BF16 = 30, 1, 2;
    /// Values -1, 0, 1; five to a byte; f16 scale per 256.
    TQ1_0 = 34, 256, 54;
    /// Values -1, 0, 1 in two bits; f16 scale per 256.
    TQ2_0 = 35, 256, 66;
    /// OCP microscaling: e2m1 values, one power of two per 32.
    MXFP4 = 39, 32, 17;
    /// e2m1 values, an unsigned e4m3 scale per 16, blocks of 64.
    NVFP4 = 40, 64, 36;
}

impl BlockType {
    /// The bytes of one row of `cols` values; `None` if `cols` is no whole number of blocks.
    pub fn row_bytes(self, cols: usize) -> Option<usize> {
        if !cols.is_multiple_of(self.block_len()) {
            return None;
        }
        (cols / self.block_len()).checked_mul(self.block_bytes())
    }

    /// Whether the type is a plain float (F32, F16, BF16).
    pub fn is_float(self) -> bool {
        matches!(self, BlockType::F32 | BlockType::F16 | BlockType::BF16)
    }

    /// Whether `Arithmetic::Fast` computes differently from `Arithmetic::Exact` for this type:
    /// with activations rounded to 8 bits (quantised types) or to bfloat16 (BF16, where the processor has it).
    pub fn has_fast(self) -> bool {
        !matches!(self, BlockType::F32 | BlockType::F16)
    }
}

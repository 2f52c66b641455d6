//! The weight blocks of GGUF files: their sizes and ids, matrices of them, and their dequantization.
#![cfg_attr(
    not(target_arch = "x86_64"),
    allow(dead_code, unused_imports, reason = "what the x86-64 kernels use")
)]

mod bytes;
mod dequantize;
mod format;
mod four_bit;
mod grid;
mod k_quants;
mod matrix;
mod tables;
mod ternary;
#[cfg(test)]
mod tests;
mod types;

pub use dequantize::dequantize;
pub(crate) use dequantize::dequantize_row;
pub(crate) use format::{
    Factors, Format, GROUPS, GroupShape, SUPER, WideFormat, check_sizes, with_format, with_width,
};
pub(crate) use four_bit::{
    IQ4_LEVELS, Iq4Nl, MXFP4_LEVELS, Mxfp4, Nvfp4, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, e8m0_half, ue4m3_half,
};
pub(crate) use grid::{Iq1M, Iq1S, Iq2S, Iq2Xs, Iq2Xxs, Iq3S, Iq3Xxs};
pub(crate) use k_quants::{Iq4Xs, Q2K, Q3K, Q4K, Q5K, Q6K};
pub use matrix::Matrix;
pub(crate) use tables::{
    EVEN_MASKS, IQ1_PACKED, IQ1_TIMES_8, IQ2_S, IQ2_S_PACKED, IQ2_XS, IQ2_XS_PACKED, IQ2_XXS, IQ2_XXS_PACKED,
    IQ3_S, IQ3_S_LEVELS, IQ3_S_PACKED, IQ3_XXS, IQ3_XXS_LEVELS, IQ3_XXS_PACKED, TWO_BIT_LEVELS,
};
pub(crate) use ternary::{Tq1_0, Tq2_0};
pub use types::{BlockType, FloatType, QuantType};

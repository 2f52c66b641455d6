//! Matrix products in plain Rust, for every processor.

mod float;
mod rounded;

use super::types::{BFloat16, Choice, Class, Float, IsaKernels, Rounded};
use crate::blocks::{BlockType, QuantType, with_width};
use crate::isa::Portable;

impl IsaKernels for Portable {
    fn float(&self, block: BlockType, class: Class) -> Choice<Float> {
        float::choose(block, class)
    }

    fn bfloat16(&self, class: Class) -> Choice<BFloat16> {
        float::bfloat16(class)
    }

    fn rounded(&self, quant: QuantType, class: Class) -> Choice<Rounded> {
        with_width!(quant, F => rounded::wide::<F>(class), F => rounded::narrow::<F>(class))
    }
}

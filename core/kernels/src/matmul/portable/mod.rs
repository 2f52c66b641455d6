//! Matrix products in plain Rust, for every processor.

mod float;
mod rounded;

use super::types::{Choice, Class, Float, IsaKernels, Rounded};
use crate::blocks::{BlockType, QuantType, with_format};
use crate::isa::Portable;

impl IsaKernels for Portable {
    fn float(&self, block: BlockType, class: Class) -> Choice<Float> {
        float::choose(block, class)
    }

    fn rounded(&self, quant: QuantType, class: Class) -> Choice<Rounded> {
        with_format!(quant, F => rounded::choose::<F>(class))
    }
}

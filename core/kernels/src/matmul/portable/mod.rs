//! Matrix products in plain Rust, for every processor.

mod float;
mod int8;

use super::types::{BFloat16, Float, Int8Activations, IsaKernels, KernelChoice, ProductKind};
use crate::blocks::{BlockType, QuantType, with_width};
use crate::isa::Portable;

impl IsaKernels for Portable {
    fn float(&self, block: BlockType, kind: ProductKind) -> KernelChoice<Float> {
        float::choose(block, kind)
    }

    fn bfloat16(&self, kind: ProductKind) -> KernelChoice<BFloat16> {
        float::bfloat16(kind)
    }

    fn int8(&self, quant: QuantType, kind: ProductKind) -> KernelChoice<Int8Activations> {
        with_width!(quant, F => int8::wide::<F>(kind), F => int8::narrow::<F>(kind))
    }
}

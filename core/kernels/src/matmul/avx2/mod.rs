//! Products through AVX2: of many rows through the unpacked form of every format, of one row straight on the blocks.

mod bytes;
mod float;
mod many;
mod many_wide;
mod one;
mod one_grid;
mod one_lanes;
mod one_narrow;
mod one_wide;
mod transpose;
mod unpack;

use super::types::{BFloat16, Choice, Class, Float, IsaKernels, Rounded};
use crate::blocks::{BlockType, QuantType, with_format, with_width};
use crate::isa::Avx2;

impl IsaKernels for Avx2 {
    fn float(&self, block: BlockType, class: Class) -> Choice<Float> {
        float::choose(*self, block, class)
    }

    fn bfloat16(&self, class: Class) -> Choice<BFloat16> {
        float::bfloat16(*self, class)
    }

    fn rounded(&self, quant: QuantType, class: Class) -> Choice<Rounded> {
        match class {
            Class::OneRow => with_format!(quant, F => one::choose::<F>(*self)),
            Class::ManyRows => {
                with_width!(quant, F => many_wide::choose::<F>(*self), F => many::choose::<F>(*self))
            }
        }
    }
}

//! Products through AVX2: every format through its unpacked form.

mod bytes;
mod float;
mod many;
mod one;
mod transpose;
mod unpack;

use super::types::{Choice, Class, Float, IsaKernels, Rounded};
use crate::blocks::{BlockType, QuantType, with_format};
use crate::isa::Avx2;

impl IsaKernels for Avx2 {
    fn float(&self, block: BlockType, class: Class) -> Choice<Float> {
        float::choose(*self, block, class)
    }

    fn rounded(&self, quant: QuantType, class: Class) -> Choice<Rounded> {
        match class {
            Class::OneRow => with_format!(quant, F => one::choose::<F>(*self)),
            Class::ManyRows => with_format!(quant, F => many::choose::<F>(*self)),
        }
    }
}

//! Products through aarch64's Advanced SIMD: every format through its unpacked form, with the signed dot products of
//! bytes (`dotprod`) and, for several rows, their matrix form (`i8mm`) where the processor has them.

mod features;
mod float;
mod many;
mod many_square;
mod one;
#[cfg(test)]
mod tests;
mod tile;

use super::types::{Choice, Class, Float, IsaKernels, Rounded};
use crate::blocks::{BlockType, QuantType, with_format};
use crate::isa::{Neon, Portable};

impl IsaKernels for Neon {
    fn float(&self, block: BlockType, class: Class) -> Choice<Float> {
        float::choose(*self, block, class)
    }

    fn rounded(&self, quant: QuantType, class: Class) -> Choice<Rounded> {
        let Some(dots) = self.dot_products() else { return Portable.rounded(quant, class) };
        match (class, self.matrix_products()) {
            (Class::OneRow, _) => with_format!(quant, F => one::choose::<F>(dots)),
            (Class::ManyRows, Some(squares)) => with_format!(quant, F => many_square::choose::<F>(squares)),
            (Class::ManyRows, None) => with_format!(quant, F => many::choose::<F>(dots)),
        }
    }
}

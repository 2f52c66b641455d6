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

use super::types::{BFloat16, Choice, Class, Float, IsaKernels, Rounded};
use crate::blocks::{BlockType, QuantType, with_width};
use crate::isa::{DotProducts, Neon, Portable};
use tile::Scaled;

impl IsaKernels for Neon {
    fn float(&self, block: BlockType, class: Class) -> Choice<Float> {
        float::choose(*self, block, class)
    }

    fn bfloat16(&self, class: Class) -> Choice<BFloat16> {
        float::bfloat16(*self, class)
    }

    fn rounded(&self, quant: QuantType, class: Class) -> Choice<Rounded> {
        let Some(dots) = self.dot_products() else { return Portable.rounded(quant, class) };
        with_width!(quant,
            F => choose::<tile::Wide<F>>(*self, dots, class),
            F => choose::<tile::Narrow<F>>(*self, dots, class)
        )
    }
}

/// The kernel for a format.
fn choose<S: Scaled>(isa: Neon, dots: DotProducts, class: Class) -> Choice<Rounded> {
    match (class, isa.matrix_products()) {
        (Class::OneRow, _) => one::choose::<S>(dots),
        (Class::ManyRows, Some(squares)) => many_square::choose::<S>(squares),
        (Class::ManyRows, None) => many::choose::<S>(dots),
    }
}

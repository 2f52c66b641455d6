//! Products through aarch64's Advanced SIMD: every format through its unpacked form, with the signed dot products of
//! bytes (`dotprod`) and, for several rows, their matrix form (`i8mm`) where the processor has them.

mod features;
mod float;
mod gemm;
mod gemm_i8mm;
mod gemv;
#[cfg(test)]
mod tests;
mod tile;

use super::types::{BFloat16, Choice, Float, Int8Activations, IsaKernels, ProductKind};
use crate::blocks::{BlockType, QuantType, with_width};
use crate::isa::{DotProducts, Neon, Portable};
use tile::Scaled;

impl IsaKernels for Neon {
    fn float(&self, block: BlockType, kind: ProductKind) -> Choice<Float> {
        float::choose(*self, block, kind)
    }

    fn bfloat16(&self, kind: ProductKind) -> Choice<BFloat16> {
        float::bfloat16(*self, kind)
    }

    fn int8(&self, quant: QuantType, kind: ProductKind) -> Choice<Int8Activations> {
        let Some(dots) = self.dot_products() else { return Portable.int8(quant, kind) };
        with_width!(quant,
            F => choose::<tile::Wide<F>>(*self, dots, kind),
            F => choose::<tile::Narrow<F>>(*self, dots, kind)
        )
    }
}

/// The kernel for a format.
fn choose<S: Scaled>(isa: Neon, dots: DotProducts, kind: ProductKind) -> Choice<Int8Activations> {
    match (kind, isa.matrix_products()) {
        (ProductKind::Gemv, _) => gemv::choose::<S>(dots),
        (ProductKind::Gemm, Some(squares)) => gemm_i8mm::choose::<S>(squares),
        (ProductKind::Gemm, None) => gemm::choose::<S>(dots),
    }
}

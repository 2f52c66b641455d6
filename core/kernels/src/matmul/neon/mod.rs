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

use super::types::{BFloat16, Float, Int8Activations, IsaKernels, KernelChoice, ProductKind};
use crate::blocks::{BlockType, QuantType, with_width};
use crate::isa::{DotProducts, Neon, Portable};
use tile::NeonFormat;

impl IsaKernels for Neon {
    fn float(&self, block: BlockType, kind: ProductKind) -> KernelChoice<Float> {
        float::choose(*self, block, kind)
    }

    fn bfloat16(&self, kind: ProductKind) -> KernelChoice<BFloat16> {
        float::bfloat16(*self, kind)
    }

    fn few_rows(&self) -> usize {
        if self.dot_products().is_some() { gemv::TOGETHER } else { Portable.few_rows() }
    }

    fn int8(&self, quant: QuantType, kind: ProductKind) -> KernelChoice<Int8Activations> {
        let Some(dots) = self.dot_products() else { return Portable.int8(quant, kind) };
        with_width!(quant,
            F => choose::<tile::NeonWide<F>>(*self, dots, kind),
            F => choose::<tile::NeonNarrow<F>>(*self, dots, kind)
        )
    }
}

/// The kernel for a format.
fn choose<S: NeonFormat>(isa: Neon, dots: DotProducts, kind: ProductKind) -> KernelChoice<Int8Activations> {
    match (kind, isa.matrix_products()) {
        (ProductKind::Gemv | ProductKind::FewRows, _) => gemv::choose::<S>(dots),
        (ProductKind::Gemm, Some(squares)) => gemm_i8mm::choose::<S>(squares),
        (ProductKind::Gemm, None) => gemm::choose::<S>(dots),
    }
}

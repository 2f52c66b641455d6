//! Products through AVX2: for many rows through the unpacked form of every format, for one row or few directly on the
//! blocks.

mod bytes;
mod float;
mod gemm_narrow;
mod gemm_wide;
mod gemv;
mod gemv_codebook;
mod gemv_lanes;
mod gemv_narrow;
mod gemv_wide;
mod transpose;
mod unpack;

use super::types::{BFloat16, Float, Int8Activations, IsaKernels, KernelChoice, ProductKind};
use crate::blocks::{BlockType, QuantType, with_format, with_width};
use crate::isa::Avx2;

impl IsaKernels for Avx2 {
    fn float(&self, block: BlockType, kind: ProductKind) -> KernelChoice<Float> {
        float::choose(*self, block, kind)
    }

    fn bfloat16(&self, kind: ProductKind) -> KernelChoice<BFloat16> {
        float::bfloat16(*self, kind)
    }

    fn few_rows(&self) -> usize {
        gemv::TOGETHER
    }

    fn int8(&self, quant: QuantType, kind: ProductKind) -> KernelChoice<Int8Activations> {
        match kind {
            ProductKind::Gemv | ProductKind::FewRows => with_format!(quant, F => gemv::choose::<F>(*self)),
            ProductKind::Gemm => {
                with_width!(quant, F => gemm_wide::choose::<F>(*self), F => gemm_narrow::choose::<F>(*self))
            }
        }
    }
}

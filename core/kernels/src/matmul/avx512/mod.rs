//! Products with rounded activations through AVX-512 VNNI.
//!
//! Many rows: a tile of 48 weight rows (32 for most wide formats; or 16) by 256 columns is unpacked once to bytes,
//! weight rows in lanes and four columns per dword; then it is multiplied with all tokens, four at a time. Results stay
//! in a scratch in the second-level cache until the last columns are done.

mod bfloat16_weights;
mod codebook;
mod codebook_iq1;
mod gemm_bfloat16;
mod gemm_float;
mod gemm_narrow;
mod gemm_wide;
mod gemv;
mod gemv_batches;
mod gemv_bfloat16;
mod gemv_codebook;
mod gemv_float;
mod gemv_iq1;
mod gemv_iq2;
mod gemv_iq3;
mod gemv_lanes;
mod gemv_narrow;
mod gemv_nvfp4;
mod gemv_panels;
mod gemv_q2_q3;
mod gemv_row_pair;
mod gemv_ternary;
mod gemv_unpacked;
mod gemv_wide;
mod multiply_narrow;
mod multiply_wide;
mod pack_codebook;
mod pack_narrow;
mod pack_wide;
mod planes;
#[cfg(test)]
mod tests;
mod tile_narrow;
mod tile_wide;

use super::types::{BFloat16, Float, Int8Activations, IsaKernels, KernelChoice, ProductKind};
use crate::blocks::*;
use crate::isa::Avx512;
use codebook::CodebookFormat;
use gemv_codebook::CodebookProducts;
use gemv_iq2::Iq2;
use gemv_iq3::Iq3;
use pack_codebook::PackCodebook;
use tile_narrow::Unpack;
use tile_wide::UnpackWide;

impl IsaKernels for Avx512 {
    fn float(&self, block: BlockType, kind: ProductKind) -> KernelChoice<Float> {
        match (kind, block) {
            (ProductKind::Gemv, BlockType::Float(float)) => gemv_float::choose(*self, float),
            // The conversion dominates, and AVX2 is as fast at it.
            (ProductKind::Gemv, BlockType::Quant(_)) => self.avx2().float(block, kind),
            (ProductKind::FewRows | ProductKind::Gemm, _) => gemm_float::choose(*self, block),
        }
    }

    fn int8(&self, quant: QuantType, kind: ProductKind) -> KernelChoice<Int8Activations> {
        match kind {
            ProductKind::Gemv => choose_one(*self, quant),
            ProductKind::FewRows | ProductKind::Gemm => choose_many(*self, quant),
        }
    }

    fn bfloat16(&self, kind: ProductKind) -> KernelChoice<BFloat16> {
        self.native_bfloat16(FloatType::BF16, kind).unwrap_or_else(|| self.avx2().bfloat16(kind))
    }

    fn native_bfloat16(&self, float: FloatType, kind: ProductKind) -> Option<KernelChoice<BFloat16>> {
        let isa = Avx512::bfloat16(*self)?;
        match kind {
            ProductKind::Gemv => gemv_bfloat16::choose(isa, float),
            ProductKind::FewRows | ProductKind::Gemm => gemm_bfloat16::choose(isa, float),
        }
    }
}

/// The many-row kernel of a codebook format.
fn gemm_of_codebook<F: CodebookFormat>(isa: Avx512) -> KernelChoice<Int8Activations> {
    match isa.bytes() {
        Some(bytes) => gemm_wide::choose_with::<PackCodebook<F>>(bytes),
        None => gemm_wide::choose::<UnpackWide<F>>(isa),
    }
}

/// The one-row kernel of a codebook format.
fn gemv_of_codebook<D: CodebookProducts>(isa: Avx512) -> KernelChoice<Int8Activations> {
    match isa.bytes() {
        Some(bytes) => gemv_codebook::choose::<D>(bytes),
        None => gemv::choose::<UnpackWide<D::Blocks>>(isa),
    }
}

/// The many-row kernel of a quantized type.
fn choose_many(isa: Avx512, quant: QuantType) -> KernelChoice<Int8Activations> {
    use {gemm_narrow::choose, gemm_wide::choose as wide};
    match quant {
        QuantType::Q4_0 => choose::<Q4_0>(isa),
        QuantType::Q4_1 => choose::<Q4_1>(isa),
        QuantType::Q5_0 => choose::<Q5_0>(isa),
        QuantType::Q5_1 => choose::<Q5_1>(isa),
        QuantType::Q8_0 => choose::<Q8_0>(isa),
        QuantType::IQ4_NL => choose::<Iq4Nl>(isa),
        QuantType::MXFP4 => choose::<Mxfp4>(isa),
        QuantType::Q2_K => wide::<Q2K>(isa),
        QuantType::Q4_K => wide::<Q4K>(isa),
        QuantType::Q5_K => wide::<Q5K>(isa),
        QuantType::Q6_K => wide::<Q6K>(isa),
        QuantType::IQ4_XS => choose::<Iq4Xs>(isa),
        QuantType::Q3_K => wide::<Q3K>(isa),
        QuantType::IQ1_S => gemm_of_codebook::<Iq1S>(isa),
        QuantType::IQ1_M => gemm_of_codebook::<Iq1M>(isa),
        QuantType::IQ2_XXS => gemm_of_codebook::<Iq2Xxs>(isa),
        QuantType::IQ2_XS => gemm_of_codebook::<Iq2Xs>(isa),
        QuantType::IQ2_S => gemm_of_codebook::<Iq2S>(isa),
        QuantType::IQ3_XXS => gemm_of_codebook::<Iq3Xxs>(isa),
        QuantType::IQ3_S => gemm_of_codebook::<Iq3S>(isa),
        QuantType::TQ1_0 => wide::<UnpackWide<Tq1_0>>(isa),
        QuantType::TQ2_0 => wide::<UnpackWide<Tq2_0>>(isa),
        QuantType::NVFP4 => choose::<Unpack<Nvfp4>>(isa),
    }
}

/// The one-row kernel of a quantized type.
fn choose_one(isa: Avx512, quant: QuantType) -> KernelChoice<Int8Activations> {
    use gemv::choose;
    match quant {
        QuantType::Q4_0 => choose::<Q4_0>(isa),
        QuantType::Q4_1 => choose::<Q4_1>(isa),
        QuantType::Q5_0 => choose::<Q5_0>(isa),
        QuantType::Q5_1 => choose::<Q5_1>(isa),
        QuantType::Q8_0 => choose::<Q8_0>(isa),
        QuantType::IQ4_NL => choose::<Iq4Nl>(isa),
        QuantType::MXFP4 => choose::<Mxfp4>(isa),
        QuantType::Q4_K => choose::<Q4K>(isa),
        QuantType::Q5_K => choose::<Q5K>(isa),
        QuantType::Q6_K => choose::<Q6K>(isa),
        QuantType::IQ4_XS => choose::<Iq4Xs>(isa),
        QuantType::Q2_K => choose::<Q2K>(isa),
        QuantType::Q3_K => choose::<Q3K>(isa),
        QuantType::IQ1_S => gemv_of_codebook::<Iq1S>(isa),
        QuantType::IQ1_M => gemv_of_codebook::<Iq1M>(isa),
        QuantType::IQ2_XXS => gemv_of_codebook::<Iq2<Iq2Xxs>>(isa),
        QuantType::IQ2_XS => gemv_of_codebook::<Iq2<Iq2Xs>>(isa),
        QuantType::IQ2_S => gemv_of_codebook::<Iq2<Iq2S>>(isa),
        QuantType::IQ3_XXS => gemv_of_codebook::<Iq3<Iq3Xxs>>(isa),
        QuantType::IQ3_S => gemv_of_codebook::<Iq3<Iq3S>>(isa),
        QuantType::TQ1_0 => match isa.bytes() {
            Some(bytes) => gemv_codebook::choose::<Tq1_0>(bytes),
            None => choose::<Tq1_0>(isa),
        },
        QuantType::TQ2_0 => choose::<Tq2_0>(isa),
        QuantType::NVFP4 => choose::<Nvfp4>(isa),
    }
}

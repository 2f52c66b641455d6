//! Products with rounded activations through AVX-512 VNNI.
//!
//! Many rows: a tile of 48 (or 16) weight rows by 256 columns is unpacked once to bytes, weight rows in lanes and
//! four columns per dword; then all tokens run over it, four at a time. Its results stay in a scratch in the
//! second-level cache until the last columns are done.

mod bfloat16_many;
mod float_many;
mod float_one;
mod many;
mod multiply;
mod nibbles;
mod one;
mod one_narrow;
mod one_small;
mod one_unpacked;
mod one_wide;
mod pack;
mod tile;

use super::types::{BFloat16, Choice, Class, Float, IsaKernels, Rounded};
use crate::blocks::*;
use crate::isa::Avx512;
use tile::Unpack;

impl IsaKernels for Avx512 {
    fn float(&self, block: BlockType, class: Class) -> Choice<Float> {
        match (class, block) {
            (Class::OneRow, BlockType::Float(float)) => float_one::choose(*self, float),
            // Dominated by the conversion, which AVX2 does as well.
            (Class::OneRow, BlockType::Quant(_)) => self.avx2().float(block, class),
            (Class::ManyRows, _) => float_many::choose(*self, block),
        }
    }

    fn rounded(&self, quant: QuantType, class: Class) -> Choice<Rounded> {
        match class {
            Class::OneRow => choose_one(*self, quant),
            Class::ManyRows => choose_many(*self, quant),
        }
    }

    fn bfloat16(&self, float: FloatType) -> Option<Choice<BFloat16>> {
        bfloat16_many::choose(Avx512::bfloat16(*self)?, float)
    }
}

/// The many-row kernel of a quantised type.
fn choose_many(isa: Avx512, quant: QuantType) -> Choice<Rounded> {
    use many::choose;
    match quant {
        QuantType::Q4_0 => choose::<Q4_0>(isa),
        QuantType::Q4_1 => choose::<Q4_1>(isa),
        QuantType::Q5_0 => choose::<Q5_0>(isa),
        QuantType::Q5_1 => choose::<Q5_1>(isa),
        QuantType::Q8_0 => choose::<Q8_0>(isa),
        QuantType::IQ4_NL => choose::<Iq4Nl>(isa),
        QuantType::MXFP4 => choose::<Mxfp4>(isa),
        QuantType::Q2_K => choose::<Q2K>(isa),
        QuantType::Q4_K => choose::<Q4K>(isa),
        QuantType::Q5_K => choose::<Q5K>(isa),
        QuantType::Q6_K => choose::<Q6K>(isa),
        QuantType::IQ4_XS => choose::<Iq4Xs>(isa),
        QuantType::Q3_K => choose::<Unpack<Q3K>>(isa),
        QuantType::IQ1_S => choose::<Unpack<Iq1S>>(isa),
        QuantType::IQ1_M => choose::<Unpack<Iq1M>>(isa),
        QuantType::IQ2_XXS => choose::<Unpack<Iq2Xxs>>(isa),
        QuantType::IQ2_XS => choose::<Unpack<Iq2Xs>>(isa),
        QuantType::IQ2_S => choose::<Unpack<Iq2S>>(isa),
        QuantType::IQ3_XXS => choose::<Unpack<Iq3Xxs>>(isa),
        QuantType::IQ3_S => choose::<Unpack<Iq3S>>(isa),
        QuantType::TQ1_0 => choose::<Unpack<Tq1_0>>(isa),
        QuantType::TQ2_0 => choose::<Unpack<Tq2_0>>(isa),
        QuantType::NVFP4 => choose::<Unpack<Nvfp4>>(isa),
    }
}

/// The one-row kernel of a quantised type.
fn choose_one(isa: Avx512, quant: QuantType) -> Choice<Rounded> {
    use one::choose;
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
        QuantType::IQ1_S => choose::<Unpack<Iq1S>>(isa),
        QuantType::IQ1_M => choose::<Unpack<Iq1M>>(isa),
        QuantType::IQ2_XXS => choose::<Unpack<Iq2Xxs>>(isa),
        QuantType::IQ2_XS => choose::<Unpack<Iq2Xs>>(isa),
        QuantType::IQ2_S => choose::<Unpack<Iq2S>>(isa),
        QuantType::IQ3_XXS => choose::<Unpack<Iq3Xxs>>(isa),
        QuantType::IQ3_S => choose::<Unpack<Iq3S>>(isa),
        QuantType::TQ1_0 => choose::<Unpack<Tq1_0>>(isa),
        QuantType::TQ2_0 => choose::<Unpack<Tq2_0>>(isa),
        QuantType::NVFP4 => choose::<Unpack<Nvfp4>>(isa),
    }
}

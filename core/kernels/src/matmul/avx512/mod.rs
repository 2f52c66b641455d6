//! Products with rounded activations through AVX-512 VNNI.
//!
//! Many rows: a tile of 48 weight rows (32 of most wide formats; or 16) by 256 columns is unpacked once to bytes, weight rows in
//! lanes and four columns per dword; then all tokens run over it, four at a time. Its results stay in a scratch in the
//! second-level cache until the last columns are done.

mod bfloat16_many;
mod bfloat16_one;
mod bfloat16_stored;
mod books;
mod float_many;
mod float_one;
mod many;
mod multiply;
mod nibbles;
mod one;
mod one_batches;
mod one_bit_books;
mod one_eights;
mod one_fours;
mod one_lanes;
mod one_narrow;
mod one_ones;
mod one_pairs;
mod one_panels;
mod one_sixteens;
mod one_small;
mod one_ternary;
mod one_unpacked;
mod one_wide;
mod pack;
mod pack_books;
mod pair;
mod planes;
#[cfg(test)]
mod tests;
mod tile;
mod wide_many;
mod wide_multiply;
mod wide_tile;

use super::types::{BFloat16, Choice, Class, Float, IsaKernels, Rounded};
use crate::blocks::*;
use crate::isa::Avx512;
use books::Books;
use one_eights::Eights;
use one_fours::Fours;
use one_pairs::Pairs;
use pack_books::PackBook;
use tile::Unpack;
use wide_tile::UnpackWide;

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

    fn bfloat16(&self, class: Class) -> Choice<BFloat16> {
        self.native_bfloat16(FloatType::BF16, class).unwrap_or_else(|| self.avx2().bfloat16(class))
    }

    fn native_bfloat16(&self, float: FloatType, class: Class) -> Option<Choice<BFloat16>> {
        let isa = Avx512::bfloat16(*self)?;
        match class {
            Class::OneRow => bfloat16_one::choose(isa, float),
            Class::ManyRows => bfloat16_many::choose(isa, float),
        }
    }
}

/// The many-row kernel of a code-book format.
fn many_of_book<F: Books>(isa: Avx512) -> Choice<Rounded> {
    match isa.bytes() {
        Some(bytes) => wide_many::choose_with::<PackBook<F>>(bytes),
        None => wide_many::choose::<UnpackWide<F>>(isa),
    }
}

/// The one-row kernel of a code-book format.
fn one_of_book<D: Pairs>(isa: Avx512) -> Choice<Rounded> {
    match isa.bytes() {
        Some(bytes) => one_pairs::choose::<D>(bytes),
        None => one::choose::<UnpackWide<D::Blocks>>(isa),
    }
}

/// The many-row kernel of a quantized type.
fn choose_many(isa: Avx512, quant: QuantType) -> Choice<Rounded> {
    use {many::choose, wide_many::choose as wide};
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
        QuantType::IQ1_S => many_of_book::<Iq1S>(isa),
        QuantType::IQ1_M => many_of_book::<Iq1M>(isa),
        QuantType::IQ2_XXS => many_of_book::<Iq2Xxs>(isa),
        QuantType::IQ2_XS => many_of_book::<Iq2Xs>(isa),
        QuantType::IQ2_S => many_of_book::<Iq2S>(isa),
        QuantType::IQ3_XXS => many_of_book::<Iq3Xxs>(isa),
        QuantType::IQ3_S => many_of_book::<Iq3S>(isa),
        QuantType::TQ1_0 => wide::<UnpackWide<Tq1_0>>(isa),
        QuantType::TQ2_0 => wide::<UnpackWide<Tq2_0>>(isa),
        QuantType::NVFP4 => choose::<Unpack<Nvfp4>>(isa),
    }
}

/// The one-row kernel of a quantized type.
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
        QuantType::IQ1_S => one_of_book::<Iq1S>(isa),
        QuantType::IQ1_M => one_of_book::<Iq1M>(isa),
        QuantType::IQ2_XXS => one_of_book::<Eights<Iq2Xxs>>(isa),
        QuantType::IQ2_XS => one_of_book::<Eights<Iq2Xs>>(isa),
        QuantType::IQ2_S => one_of_book::<Eights<Iq2S>>(isa),
        QuantType::IQ3_XXS => one_of_book::<Fours<Iq3Xxs>>(isa),
        QuantType::IQ3_S => one_of_book::<Fours<Iq3S>>(isa),
        QuantType::TQ1_0 => match isa.bytes() {
            Some(bytes) => one_pairs::choose::<Tq1_0>(bytes),
            None => choose::<Tq1_0>(isa),
        },
        QuantType::TQ2_0 => choose::<Tq2_0>(isa),
        QuantType::NVFP4 => choose::<Nvfp4>(isa),
    }
}

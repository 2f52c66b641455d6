//! Products with rounded activations through AVX-512 VNNI.
//!
//! Many rows: a tile of 48 (or 16) weight rows by 256 columns is unpacked once to bytes, weight rows in lanes and
//! four columns per dword; then all tokens run over it, four at a time. Its results stay in a scratch in the
//! second-level cache until the last columns are done.

mod features;
mod float_many;
mod float_one;
mod halves_many;
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

use super::Arithmetic;
use super::job::Form;
use super::plan::Choice;
use crate::blocks::*;

/// The many-row kernel of a quantised type.
fn choose_many(block: BlockType) -> Choice {
    use many::kernel;
    use tile::Unpack;
    let kernel = match block {
        BlockType::Q4_0 => kernel::<Q4_0>(),
        BlockType::Q4_1 => kernel::<Q4_1>(),
        BlockType::Q5_0 => kernel::<Q5_0>(),
        BlockType::Q5_1 => kernel::<Q5_1>(),
        BlockType::Q8_0 => kernel::<Q8_0>(),
        BlockType::IQ4_NL => kernel::<Iq4Nl>(),
        BlockType::MXFP4 => kernel::<Mxfp4>(),
        BlockType::Q2_K => kernel::<Q2K>(),
        BlockType::Q4_K => kernel::<Q4K>(),
        BlockType::Q5_K => kernel::<Q5K>(),
        BlockType::Q6_K => kernel::<Q6K>(),
        BlockType::IQ4_XS => kernel::<Iq4Xs>(),
        BlockType::Q3_K => kernel::<Unpack<Q3K>>(),
        BlockType::IQ1_S => kernel::<Unpack<Iq1S>>(),
        BlockType::IQ1_M => kernel::<Unpack<Iq1M>>(),
        BlockType::IQ2_XXS => kernel::<Unpack<Iq2Xxs>>(),
        BlockType::IQ2_XS => kernel::<Unpack<Iq2Xs>>(),
        BlockType::IQ2_S => kernel::<Unpack<Iq2S>>(),
        BlockType::IQ3_XXS => kernel::<Unpack<Iq3Xxs>>(),
        BlockType::IQ3_S => kernel::<Unpack<Iq3S>>(),
        BlockType::TQ1_0 => kernel::<Unpack<Tq1_0>>(),
        BlockType::TQ2_0 => kernel::<Unpack<Tq2_0>>(),
        BlockType::NVFP4 => kernel::<Unpack<Nvfp4>>(),
        // Float types never come here; the generic kernel would read nothing and write nothing.
        BlockType::F32 | BlockType::F16 | BlockType::BF16 => kernel::<Q8_0>(),
    };
    Choice { kernel, form: Form::of(block), tile: many::TILE_ROWS }
}

/// The one-row kernel of a quantised type.
fn choose_one(block: BlockType) -> Choice {
    use one::kernel;
    use tile::Unpack;
    let kernel = match block {
        BlockType::Q4_0 => kernel::<Q4_0>(),
        BlockType::Q4_1 => kernel::<Q4_1>(),
        BlockType::Q5_0 => kernel::<Q5_0>(),
        BlockType::Q5_1 => kernel::<Q5_1>(),
        BlockType::Q8_0 => kernel::<Q8_0>(),
        BlockType::IQ4_NL => kernel::<Iq4Nl>(),
        BlockType::MXFP4 => kernel::<Mxfp4>(),
        BlockType::Q4_K => kernel::<Q4K>(),
        BlockType::Q5_K => kernel::<Q5K>(),
        BlockType::Q6_K => kernel::<Q6K>(),
        BlockType::IQ4_XS => kernel::<Iq4Xs>(),
        BlockType::Q2_K => kernel::<Q2K>(),
        BlockType::Q3_K => kernel::<Q3K>(),
        BlockType::IQ1_S => kernel::<Unpack<Iq1S>>(),
        BlockType::IQ1_M => kernel::<Unpack<Iq1M>>(),
        BlockType::IQ2_XXS => kernel::<Unpack<Iq2Xxs>>(),
        BlockType::IQ2_XS => kernel::<Unpack<Iq2Xs>>(),
        BlockType::IQ2_S => kernel::<Unpack<Iq2S>>(),
        BlockType::IQ3_XXS => kernel::<Unpack<Iq3Xxs>>(),
        BlockType::IQ3_S => kernel::<Unpack<Iq3S>>(),
        BlockType::TQ1_0 => kernel::<Unpack<Tq1_0>>(),
        BlockType::TQ2_0 => kernel::<Unpack<Tq2_0>>(),
        BlockType::NVFP4 => kernel::<Unpack<Nvfp4>>(),
        // Float types never come here; this kernel would read nothing and write nothing.
        BlockType::F32 | BlockType::F16 | BlockType::BF16 => kernel::<Q8_0>(),
    };
    Choice { kernel, form: Form::of(block), tile: 2 }
}

/// The kernels in f32.
fn choose_float(block: BlockType, one: bool) -> Choice {
    match float_one::kernel(block) {
        Some(kernel) if one => Choice { kernel, form: Form::Float, tile: 2 },
        // One row of a quantised type, exactly: dominated by the conversion, which AVX2 does as well.
        None if one => super::avx2::choose_float(one),
        _ => Choice { kernel: float_many::many, form: Form::Float, tile: float_many::TILE_ROWS },
    }
}

/// The kernel for a block type; `one`: for one row of activations.
pub(super) fn choose(block: BlockType, arithmetic: Arithmetic, one: bool) -> Choice {
    let fast = arithmetic == Arithmetic::Fast;
    if fast && !one && halves_many::available() {
        let halves = |kernel| Choice { kernel, form: Form::Halves, tile: many::TILE_ROWS };
        match block {
            BlockType::BF16 => return halves(halves_many::many::<halves_many::Brain>),
            BlockType::F16 => return halves(halves_many::many::<halves_many::Ieee>),
            _ => {}
        }
    }
    match (fast && !block.is_float(), one) {
        (false, _) => choose_float(block, one),
        (true, true) => choose_one(block),
        (true, false) => choose_many(block),
    }
}

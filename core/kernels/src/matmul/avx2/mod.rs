//! Products through AVX2: every format through its unpacked form.

mod features;
mod float;
mod many;
mod one;
mod transpose;
mod unpack;

use super::job::{Form, Kernel};
use super::plan::Choice;
use crate::blocks::{BlockType, Q8_0, with_format};

/// The kernel for a quantised type; `one`: for one row of activations.
pub(super) fn choose(block: BlockType, one: bool) -> Choice {
    // Float types never come here; the kernel for Q8_0 would read nothing and write nothing.
    let (first, second): (Kernel, Kernel) = with_format!(
        block,
        F => (one::kernel::<F>(), many::kernel::<F>()),
        float => (one::kernel::<Q8_0>(), many::kernel::<Q8_0>())
    );
    let (kernel, tile) = if one { (first, 2) } else { (second, many::TILE_ROWS) };
    Choice { kernel, form: Form::of(block), tile }
}

/// The kernels in f32, for every type.
pub(super) fn choose_float(one: bool) -> Choice {
    let (kernel, tile): (Kernel, usize) =
        if one { (float::one_row, 2) } else { (float::many, float::TILE_ROWS) };
    Choice { kernel, form: Form::Float, tile }
}

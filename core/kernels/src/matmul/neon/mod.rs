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

use std::arch::is_aarch64_feature_detected;

use super::job::{Form, Kernel};
use super::plan::Choice;
use super::tiles::LANES;
use crate::blocks::{BlockType, Q8_0, with_format};

/// The kernel for a quantised type; `one`: for one row of activations. Without `dotprod`: the portable kernel.
pub(super) fn choose(block: BlockType, one: bool) -> Choice {
    if !is_aarch64_feature_detected!("dotprod") {
        return super::generic::choose(block, one);
    }
    // Float types never come here; the kernel for Q8_0 would read nothing and write nothing.
    let (first, second, square): (Kernel, Kernel, Kernel) = with_format!(
        block,
        F => (one::kernel::<F>(), many::kernel::<F>(), many_square::kernel::<F>()),
        float => (one::kernel::<Q8_0>(), many::kernel::<Q8_0>(), many_square::kernel::<Q8_0>())
    );
    let (kernel, tile) = match one {
        true => (first, 2),
        false if is_aarch64_feature_detected!("i8mm") => (square, LANES),
        false => (second, LANES),
    };
    Choice { kernel, form: Form::of(block), tile }
}

/// The kernels in f32, for every type.
pub(super) fn choose_float(one: bool) -> Choice {
    let (kernel, tile): (Kernel, usize) = if one { (float::one_row, 2) } else { (float::many, LANES) };
    Choice { kernel, form: Form::Float, tile }
}

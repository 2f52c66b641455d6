//! The short convolution of LFM2: causal, one filter per channel, over the rows of one sequence.

use crate::cpu::Cpu;
use crate::error::{KernelError, check_len};
use crate::pointwise::{check_rows, for_rows, load_part, store_part};
use crate::simd::{Kernel, LANES, Simd, dispatch};

/// Causal depthwise convolution (PyTorch's `Conv1d` with `groups = channels` and `taps - 1` zeros before the first
/// row): `out[t, d] = sum over j of kernel[j, d] * x[t + 1 - taps + j, d]`.
///
/// `kernel` is `[taps, channels]`; `x` and `out` are `[T, channels]`. Before the call, `state` `[taps - 1, channels]`
/// holds the inputs that precede `x`, oldest first (zeros at the beginning of a sequence); after it, those that precede
/// the next rows. A row's result does not depend on how a sequence is split into calls.
///
/// # Errors
/// [`KernelError::Shape`]: lengths that do not fit. [`KernelError::JobPanicked`].
pub fn short_conv(
    cpu: &Cpu,
    kernel: &[f32],
    taps: usize,
    x: &[f32],
    state: &mut [f32],
    out: &mut [f32],
) -> Result<(), KernelError> {
    check_rows("short_conv: kernel", kernel.len(), taps)?;
    let channels = kernel.len() / taps;
    check_rows("short_conv: x", x.len(), channels)?;
    check_len("short_conv: state", state.len(), (taps - 1) * channels)?;
    check_len("short_conv: out", out.len(), x.len())?;
    let before = &*state;
    for_rows(cpu, out, channels, &|row, out| {
        for (tap, filter) in kernel.chunks_exact(channels).enumerate() {
            let at = (row + tap) * channels;
            let input = match at.checked_sub(before.len()) {
                Some(at) => &x[at..at + channels],
                None => &before[at..at + channels],
            };
            dispatch(cpu, AddTap { filter, input, fresh: tap == 0, out });
        }
    })?;
    carry(x, state);
    Ok(())
}

/// The last inputs become the state.
fn carry(x: &[f32], state: &mut [f32]) {
    let kept = state.len().saturating_sub(x.len());
    state.copy_within(state.len() - kept.., 0);
    let from = (x.len() + kept).saturating_sub(state.len());
    state[kept..].copy_from_slice(&x[from..]);
}

/// `out = filter * input`, added to the value in `out` unless `fresh`; all have the length of one row.
struct AddTap<'a> {
    filter: &'a [f32],
    input: &'a [f32],
    fresh: bool,
    out: &'a mut [f32],
}

impl Kernel for AddTap<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        if self.fresh {
            self.out.fill(0.0);
        }
        let (filters, filter_rest) = self.filter.as_chunks::<LANES>();
        let (inputs, input_rest) = self.input.as_chunks::<LANES>();
        let (outs, out_rest) = self.out.as_chunks_mut::<LANES>();
        for ((filter, input), out) in filters.iter().zip(inputs).zip(outs) {
            s.store(out, s.fma(s.load(filter), s.load(input), s.load(out)));
        }
        if !out_rest.is_empty() {
            let (filter, input) = (load_part(s, filter_rest), load_part(s, input_rest));
            let sum = s.fma(filter, input, load_part(s, out_rest));
            store_part(s, out_rest, sum);
        }
    }
}

//! The selective scan of Mamba (Gu and Dao, 2023): every channel has a small state of its own.

use crate::cpu::Cpu;
use crate::error::{KernelError, check_len};
use crate::memory::Scratch;
use crate::pointwise::{check_rows, load_part, store_part};
use crate::pool::SendPointer;
use crate::simd::{Kernel, LANES, Simd, dispatch, exp};

/// Channels of a task.
const CHANNELS: usize = 4 * LANES;

/// The rows of one sequence, of `C` channels with `N` elements of state each.
#[derive(Debug, Clone, Copy)]
pub struct SelectiveScan<'a> {
    /// `[T, C]`.
    pub x: &'a [f32],
    /// The time step of each channel, `[T, C]`.
    pub dt: &'a [f32],
    /// The input of the state, `[T, N]`.
    pub b: &'a [f32],
    /// The vector that reads the state, `[T, N]`.
    pub c: &'a [f32],
    /// `[N, C]`; the state decays by `exp(dt a)`.
    pub a: &'a [f32],
    /// `[C]`: multiplied by `x` and added to the result.
    pub skip: &'a [f32],
}

/// For every row in order and every channel `d`: `h[n, d] = exp(dt_d a[n, d]) h[n, d] + dt_d x_d b_n`, then
/// `out_d = sum over n of c_n h[n, d] + skip_d x_d`; `state` is `h`, `[N, C]`, `out` is `[T, C]`. A row's result does
/// not depend on how a sequence is split into calls.
///
/// # Errors
/// [`KernelError::Shape`]: lengths that do not fit. [`KernelError::JobPanicked`].
pub fn selective_scan(
    cpu: &Cpu,
    input: &SelectiveScan,
    state: &mut [f32],
    out: &mut [f32],
) -> Result<(), KernelError> {
    let channels = input.skip.len();
    check_rows("selective_scan: x", input.x.len(), channels)?;
    check_rows("selective_scan: a", input.a.len(), channels)?;
    let (rows, size) = (input.x.len() / channels, input.a.len() / channels);
    check_len("selective_scan: dt", input.dt.len(), rows * channels)?;
    check_len("selective_scan: b", input.b.len(), rows * size)?;
    check_len("selective_scan: c", input.c.len(), rows * size)?;
    check_len("selective_scan: state", state.len(), size * channels)?;
    check_len("selective_scan: out", out.len(), rows * channels)?;
    let (state, out) = (SendPointer(state.as_mut_ptr()), SendPointer(out.as_mut_ptr()));
    cpu.pool().run_with_scratch(channels.div_ceil(CHANNELS), &|task, scratch| {
        let end = ((task + 1) * CHANNELS).min(channels);
        for first in (task * CHANNELS..end).step_by(LANES) {
            let count = LANES.min(end - first);
            let places = Places { state: &state, out: &out, first, count };
            dispatch(cpu, ScanChannels { input, rows, size, places, scratch: &mut *scratch });
        }
    })
}

/// The state and the results of some channels.
#[derive(Clone, Copy)]
struct Places<'a> {
    /// `[N, C]`.
    state: &'a SendPointer<f32>,
    /// `[T, C]`.
    out: &'a SendPointer<f32>,
    first: usize,
    /// At most a vector.
    count: usize,
}

impl Places<'_> {
    /// These channels of row `row` of `all`, `[rows, channels]`.
    ///
    /// # Safety
    /// `all` must have that row, and no other task may use these channels of it meanwhile.
    #[inline(always)]
    #[allow(clippy::mut_from_ref)]
    unsafe fn of<'a>(&self, all: &'a SendPointer<f32>, row: usize, channels: usize) -> &'a mut [f32] {
        // SAFETY: in bounds and exclusive by the contract.
        unsafe { std::slice::from_raw_parts_mut(all.at(row * channels + self.first), self.count) }
    }
}

/// A vector of channels.
struct ScanChannels<'a> {
    input: &'a SelectiveScan<'a>,
    rows: usize,
    size: usize,
    places: Places<'a>,
    scratch: &'a mut Scratch,
}

impl Kernel for ScanChannels<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let ScanChannels { input, rows, size, places, scratch } = self;
        let channels = input.skip.len();
        let own = places.first..places.first + places.count;
        let (states, decays) = scratch.floats(2 * size * LANES).split_at_mut(size * LANES);
        let (states, decays) = (states.as_chunks_mut::<LANES>().0, decays.as_chunks_mut::<LANES>().0);
        for (row, (state, decay)) in states.iter_mut().zip(&mut *decays).enumerate() {
            // SAFETY: the state has `size` rows, and these channels belong to this task.
            let held = unsafe { places.of(places.state, row, channels) };
            s.store(state, load(s, held));
            s.store(decay, load(s, &input.a[row * channels..][own.clone()]));
        }
        let skip = load(s, &input.skip[own.clone()]);
        for row in 0..rows {
            let x = load(s, &input.x[row * channels..][own.clone()]);
            let dt = load(s, &input.dt[row * channels..][own.clone()]);
            let (step, mut sum) = (s.mul(dt, x), s.mul(skip, x));
            let of_row = row * size..(row + 1) * size;
            let read = input.b[of_row.clone()].iter().zip(&input.c[of_row]);
            for ((state, decay), (b, c)) in states.iter_mut().zip(&*decays).zip(read) {
                let kept = s.mul(exp(s, s.mul(dt, s.load(decay))), s.load(state));
                let new = s.fma(step, s.splat(*b), kept);
                sum = s.fma(s.splat(*c), new, sum);
                s.store(state, new);
            }
            // SAFETY: the results have `rows` rows, and these channels belong to this task.
            store(s, unsafe { places.of(places.out, row, channels) }, sum);
        }
        for (row, state) in states.iter().enumerate() {
            // SAFETY: as for the read above.
            let held = unsafe { places.of(places.state, row, channels) };
            store(s, held, s.load(state));
        }
    }
}

/// At most a vector, followed by zeros.
#[inline(always)]
fn load<S: Simd>(s: S, from: &[f32]) -> S::F {
    match from.first_chunk::<LANES>() {
        Some(full) => s.load(full),
        None => load_part(s, from),
    }
}

/// The first lanes, as many as fit.
#[inline(always)]
fn store<S: Simd>(s: S, to: &mut [f32], value: S::F) {
    match to.first_chunk_mut::<LANES>() {
        Some(full) => s.store(full, value),
        None => store_part(s, to, value),
    }
}

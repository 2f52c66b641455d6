//! The selective scan: one row after the other, one channel as any other; what a row reads is one chain over ascending cells
//! that begins with `skip * x`.

use menagerie_kernels::SelectiveScan;

use super::functions::exp;

/// A wrong order, planted to show that a test tells it from the right one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Cells from the last to the first.
    CellsBackwards,
    /// The skip added at the end.
    SkipLast,
    /// The new state multiplied, rounded, and then added to.
    Unfused,
    /// What is read multiplied, rounded, and then added.
    UnfusedRead,
    /// `x b` multiplied first, then with the time step.
    StepLast,
    /// An exponential that is rounded from f64.
    OtherExponential,
}

impl Fault {
    /// All of them.
    pub const ALL: [Fault; 6] = [
        Fault::CellsBackwards,
        Fault::SkipLast,
        Fault::Unfused,
        Fault::UnfusedRead,
        Fault::StepLast,
        Fault::OtherExponential,
    ];
}

/// See `menagerie_kernels::selective_scan`, whose arguments these are.
pub fn selective_scan(input: &SelectiveScan, state: &mut [f32], out: &mut [f32]) {
    faulty_selective_scan(input, state, out, None);
}

/// As [`selective_scan`], with a fault.
pub fn faulty_selective_scan(
    input: &SelectiveScan,
    state: &mut [f32],
    out: &mut [f32],
    fault: Option<Fault>,
) {
    let channels = input.skip.len();
    let size = state.len() / channels;
    let mut cells: Vec<usize> = (0..size).collect();
    if fault == Some(Fault::CellsBackwards) {
        cells.reverse();
    }
    for (at, out) in out.iter_mut().enumerate() {
        let (row, channel) = (at / channels, at % channels);
        let (x, dt, skip) = (input.x[at], input.dt[at], input.skip[channel]);
        let mut sum = if fault == Some(Fault::SkipLast) { 0.0 } else { skip * x };
        for &n in &cells {
            let cell = n * channels + channel;
            let (b, c) = (input.b[row * size + n], input.c[row * size + n]);
            let decay = match fault {
                Some(Fault::OtherExponential) => libm::exp(f64::from(dt * input.a[cell])) as f32,
                _ => exp(dt * input.a[cell]),
            };
            let kept = decay * state[cell];
            state[cell] = match fault {
                Some(Fault::Unfused) => dt * x * b + kept,
                Some(Fault::StepLast) => (x * b).mul_add(dt, kept),
                _ => (dt * x).mul_add(b, kept),
            };
            sum = match fault {
                Some(Fault::UnfusedRead) => c * state[cell] + sum,
                _ => c.mul_add(state[cell], sum),
            };
        }
        *out = if fault == Some(Fault::SkipLast) { skip.mul_add(x, sum) } else { sum };
    }
}

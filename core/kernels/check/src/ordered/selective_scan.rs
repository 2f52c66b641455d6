//! The selective scan: one row after the other, every channel alike; the output of a row is one chain over ascending
//! cells that begins with `skip * x`.

use menagerie_kernels::SelectiveScan;

use super::functions::exp;

/// A wrong order, to show that a test distinguishes it from the right one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SelectiveScanFault {
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

impl SelectiveScanFault {
    /// All of them.
    pub const ALL: [SelectiveScanFault; 6] = [
        SelectiveScanFault::CellsBackwards,
        SelectiveScanFault::SkipLast,
        SelectiveScanFault::Unfused,
        SelectiveScanFault::UnfusedRead,
        SelectiveScanFault::StepLast,
        SelectiveScanFault::OtherExponential,
    ];
}

/// See `menagerie_kernels::selective_scan`, which has the same arguments.
pub fn selective_scan(input: &SelectiveScan, state: &mut [f32], out: &mut [f32]) {
    faulty_selective_scan(input, state, out, None);
}

/// Like [`selective_scan`], with a fault.
pub fn faulty_selective_scan(
    input: &SelectiveScan,
    state: &mut [f32],
    out: &mut [f32],
    fault: Option<SelectiveScanFault>,
) {
    let channels = input.skip.len();
    let size = state.len() / channels;
    let mut cells: Vec<usize> = (0..size).collect();
    if fault == Some(SelectiveScanFault::CellsBackwards) {
        cells.reverse();
    }
    for (at, out) in out.iter_mut().enumerate() {
        let (row, channel) = (at / channels, at % channels);
        let (x, dt, skip) = (input.x[at], input.dt[at], input.skip[channel]);
        let mut sum = if fault == Some(SelectiveScanFault::SkipLast) { 0.0 } else { skip * x };
        for &n in &cells {
            let cell = n * channels + channel;
            let (b, c) = (input.b[row * size + n], input.c[row * size + n]);
            let decay = match fault {
                Some(SelectiveScanFault::OtherExponential) => libm::exp(f64::from(dt * input.a[cell])) as f32,
                _ => exp(dt * input.a[cell]),
            };
            let kept = decay * state[cell];
            state[cell] = match fault {
                Some(SelectiveScanFault::Unfused) => dt * x * b + kept,
                Some(SelectiveScanFault::StepLast) => (x * b).mul_add(dt, kept),
                _ => (dt * x).mul_add(b, kept),
            };
            sum = match fault {
                Some(SelectiveScanFault::UnfusedRead) => c * state[cell] + sum,
                _ => c.mul_add(state[cell], sum),
            };
        }
        *out = if fault == Some(SelectiveScanFault::SkipLast) { skip.mul_add(x, sum) } else { sum };
    }
}

//! The short convolution: one chain per element over ascending taps, from 0, fused.

/// A wrong order, to show that a test distinguishes it from the right one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShortConvFault {
    /// Taps from the last to the first.
    TapsBackwards,
    /// Products rounded before they are added.
    Unfused,
    /// Even taps and odd ones summed separately.
    TwoSums,
}

impl ShortConvFault {
    /// All of them.
    pub const ALL: [ShortConvFault; 3] =
        [ShortConvFault::TapsBackwards, ShortConvFault::Unfused, ShortConvFault::TwoSums];
}

/// See `menagerie_kernels::short_conv`, which has the same arguments.
pub fn short_conv(kernel: &[f32], taps: usize, x: &[f32], state: &mut [f32], out: &mut [f32]) {
    faulty_short_conv((kernel, taps), x, state, out, None);
}

/// Like [`short_conv`], with a fault.
pub fn faulty_short_conv(
    (kernel, taps): (&[f32], usize),
    x: &[f32],
    state: &mut [f32],
    out: &mut [f32],
    fault: Option<ShortConvFault>,
) {
    let channels = kernel.len() / taps;
    let inputs: Vec<f32> = state.iter().chain(x).copied().collect();
    for (i, out) in out.iter_mut().enumerate() {
        let (row, channel) = (i / channels, i % channels);
        let step = |sum: f32, tap: usize| {
            let (filter, input) =
                (kernel[tap * channels + channel], inputs[(row + tap) * channels + channel]);
            if fault == Some(ShortConvFault::Unfused) {
                filter * input + sum
            } else {
                filter.mul_add(input, sum)
            }
        };
        *out = match fault {
            Some(ShortConvFault::TapsBackwards) => (0..taps).rev().fold(0.0, step),
            Some(ShortConvFault::TwoSums) => {
                (0..taps).step_by(2).fold(0.0, step) + (1..taps).step_by(2).fold(0.0, step)
            }
            _ => (0..taps).fold(0.0, step),
        };
    }
    state.copy_from_slice(&inputs[x.len()..]);
}

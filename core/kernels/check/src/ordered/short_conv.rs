//! The short convolution: one chain per element over ascending taps, from 0, fused.

/// See `menagerie_kernels::short_conv`, whose arguments these are.
pub fn short_conv(kernel: &[f32], taps: usize, x: &[f32], state: &mut [f32], out: &mut [f32]) {
    let channels = kernel.len() / taps;
    let inputs: Vec<f32> = state.iter().chain(x).copied().collect();
    for (i, out) in out.iter_mut().enumerate() {
        let (row, channel) = (i / channels, i % channels);
        *out = (0..taps).fold(0.0, |sum, tap| {
            kernel[tap * channels + channel].mul_add(inputs[(row + tap) * channels + channel], sum)
        });
    }
    state.copy_from_slice(&inputs[x.len()..]);
}

//! The short convolution in f64, one element at a time.

/// See `menagerie_kernels::short_conv`, which has the same arguments.
pub fn short_conv(kernel: &[f32], taps: usize, x: &[f32], state: &mut [f32], out: &mut [f32]) {
    let channels = kernel.len() / taps;
    let inputs: Vec<f32> = state.iter().chain(x).copied().collect();
    for (i, out) in out.iter_mut().enumerate() {
        let (row, channel) = (i / channels, i % channels);
        let product = |tap: usize| {
            f64::from(kernel[tap * channels + channel]) * f64::from(inputs[(row + tap) * channels + channel])
        };
        *out = (0..taps).map(product).sum::<f64>() as f32;
    }
    state.copy_from_slice(&inputs[x.len()..]);
}

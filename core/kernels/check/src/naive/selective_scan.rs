//! The selective scan in f64, one row after the other.

use menagerie_kernels::SelectiveScan;

/// See `menagerie_kernels::selective_scan`, which has the same arguments.
pub fn selective_scan(input: &SelectiveScan, state: &mut [f64], out: &mut [f32]) {
    let channels = input.skip.len();
    let size = state.len() / channels;
    for (at, out) in out.iter_mut().enumerate() {
        let (row, channel) = (at / channels, at % channels);
        let (x, dt) = (f64::from(input.x[at]), f64::from(input.dt[at]));
        let mut sum = f64::from(input.skip[channel]) * x;
        for n in 0..size {
            let cell = n * channels + channel;
            let decay = (dt * f64::from(input.a[cell])).exp();
            state[cell] = decay * state[cell] + dt * x * f64::from(input.b[row * size + n]);
            sum += f64::from(input.c[row * size + n]) * state[cell];
        }
        *out = sum as f32;
    }
}

//! The selective scan: one row after the other, one channel as any other.

use menagerie_kernels::SelectiveScan;

use super::functions::exp;

/// See `menagerie_kernels::selective_scan`, whose arguments these are.
pub fn selective_scan(input: &SelectiveScan, state: &mut [f32], out: &mut [f32]) {
    let channels = input.skip.len();
    let size = state.len() / channels;
    for (at, out) in out.iter_mut().enumerate() {
        let (row, channel) = (at / channels, at % channels);
        let (x, dt) = (input.x[at], input.dt[at]);
        let mut sum = input.skip[channel] * x;
        for n in 0..size {
            let cell = n * channels + channel;
            let kept = exp(dt * input.a[cell]) * state[cell];
            state[cell] = (dt * x).mul_add(input.b[row * size + n], kept);
            sum = input.c[row * size + n].mul_add(state[cell], sum);
        }
        *out = sum;
    }
}

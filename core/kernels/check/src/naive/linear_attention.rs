//! Attention without softmax in f64, one row after the other.

use menagerie_kernels::{KeySharing, LinearAttentionRows, LinearAttentionShape, LogDecay, StateUpdate};

/// See `menagerie_kernels::linear_attention`, which has the same arguments.
pub fn linear_attention(
    shape: &LinearAttentionShape,
    input: &LinearAttentionRows,
    state: &mut [f64],
    out: &mut [f32],
) {
    let LinearAttentionShape { heads, key_heads, key_dim, value_dim, sharing, update } = *shape;
    for row in 0..out.len() / (heads * value_dim) {
        for head in 0..heads {
            let key_head = match sharing {
                KeySharing::Consecutive => head * key_heads / heads,
                KeySharing::Tiled => head % key_heads,
            };
            let place = (row * key_heads + key_head) * key_dim;
            let decay = |n: usize| {
                let log = match input.log_decay {
                    LogDecay::Fixed(all) => all[head],
                    LogDecay::PerHead(all) => all[row * heads + head],
                    LogDecay::PerChannel(all) => all[(row * heads + head) * key_dim + n],
                };
                f64::from(log).exp()
            };
            let strength = f64::from(input.strength.map_or(1.0, |all| all[row * heads + head]));
            let skip = f64::from(input.skip.map_or(0.0, |all| all[head]));
            for column in 0..value_dim {
                let at = (row * heads + head) * value_dim + column;
                let value = f64::from(input.values[at]);
                let cell = |n: usize| (head * key_dim + n) * value_dim + column;
                let key = |n: usize| f64::from(input.keys[place + n]);
                (0..key_dim).for_each(|n| state[cell(n)] *= decay(n));
                let said = match update {
                    StateUpdate::Add => 0.0,
                    StateUpdate::Delta => (0..key_dim).map(|n| state[cell(n)] * key(n)).sum(),
                };
                (0..key_dim).for_each(|n| state[cell(n)] += key(n) * strength * (value - said));
                let read = (0..key_dim).map(|n| state[cell(n)] * f64::from(input.queries[place + n]));
                out[at] = (read.sum::<f64>() + skip * value) as f32;
            }
        }
    }
}

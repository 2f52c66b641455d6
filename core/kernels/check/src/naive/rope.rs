//! Rotary position embedding, one pair at a time.

use menagerie_kernels::{Rope, RopePairs};

/// Rotates the first `2 * inv_freq.len()` elements of every head of `x`, `[T, heads, head_dim]` (Su et al. 2021);
/// the angle is the f32 product of position and inverse frequency, as in HF transformers.
pub fn rope(rope: &Rope, positions: &[u32], x: &mut [f32]) {
    let half = rope.inv_freq.len();
    let width = x.len() / positions.len().max(1);
    for (row, &position) in x.chunks_mut(width.max(1)).zip(positions) {
        for head in row.chunks_mut(rope.head_dim) {
            for (i, &frequency) in rope.inv_freq.iter().enumerate() {
                let angle = f64::from(position as f32 * frequency);
                let (a, b) = match rope.pairs {
                    RopePairs::Adjacent => (2 * i, 2 * i + 1),
                    RopePairs::Halves => (i, i + half),
                };
                let (sin, cos) =
                    (angle.sin() * f64::from(rope.magnitude), angle.cos() * f64::from(rope.magnitude));
                let (first, second) = (f64::from(head[a]), f64::from(head[b]));
                head[a] = (first * cos - second * sin) as f32;
                head[b] = (second * cos + first * sin) as f32;
            }
        }
    }
}

//! Norms, softmax and rotation, a row at a time.

use menagerie_kernels::{Rope, RopePairs};

use super::functions::exp;

/// The lanes of a vector.
const LANES: usize = 16;

/// A wrong order, to show that a test distinguishes it from the right one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowsFault {
    /// One sum over the row.
    OneSum,
    /// Sixteen sums where the order has four times as many, and vice versa.
    OtherLanes,
    /// The sums of lanes are added from the first to the last.
    NoTree,
}

impl RowsFault {
    /// All of them.
    pub const ALL: [RowsFault; 3] = [RowsFault::OneSum, RowsFault::OtherLanes, RowsFault::NoTree];
}

/// The sum of sixteen lanes: lanes eight apart, then four, two, one.
pub fn tree(lanes: &[f32], fault: Option<RowsFault>) -> f32 {
    if fault == Some(RowsFault::NoTree) {
        return lanes.iter().sum();
    }
    let mut lanes = lanes.to_vec();
    while lanes.len() > 1 {
        let (low, high) = lanes.split_at(lanes.len() / 2);
        lanes = low.iter().zip(high).map(|(a, b)| a + b).collect();
    }
    lanes[0]
}

/// The sum of a row, `step(sum so far, value)` by `step`: sixteen lanes in `vectors` vectors. Element `i` of each whole
/// `16 * vectors` goes to lane `i % 16` of vector `i / 16`. Of the remaining elements, whole vectors go to the first
/// vector, and the rest to the second (to the only one, if there is one). Vectors are added in pairs.
fn sum(row: &[f32], vectors: usize, fault: Option<RowsFault>, step: impl Fn(f32, f32) -> f32) -> f32 {
    let vectors = match fault {
        Some(RowsFault::OneSum) => return row.iter().fold(0.0, |sum, value| step(sum, *value)),
        Some(RowsFault::OtherLanes) => 5 - vectors,
        _ => vectors,
    };
    let mut sums = vec![[0f32; LANES]; vectors];
    let (whole, rest) = row.split_at(row.len() / (LANES * vectors) * LANES * vectors);
    for (i, value) in whole.iter().enumerate() {
        let sum = &mut sums[i / LANES % vectors][i % LANES];
        *sum = step(*sum, *value);
    }
    for (i, value) in rest.iter().enumerate() {
        let last = usize::from(i / LANES == rest.len() / LANES);
        let sum = &mut sums[last.min(vectors - 1)][i % LANES];
        *sum = step(*sum, *value);
    }
    let lanes: Vec<f32> = (0..LANES)
        .map(|lane| match sums.as_slice() {
            [a, b, c, d] => (a[lane] + b[lane]) + (c[lane] + d[lane]),
            _ => sums[0][lane],
        })
        .collect();
    tree(&lanes, fault)
}

/// `x / sqrt(mean(x^2) + eps) * weight`, per row of `width`.
pub fn rms_norm(
    x: &[f32],
    weight: Option<&[f32]>,
    eps: f32,
    width: usize,
    fault: Option<RowsFault>,
) -> Vec<f32> {
    let one = |row: &[f32]| -> Vec<f32> {
        let squares = sum(row, 4, fault, |sum, value| value.mul_add(value, sum));
        let factor = 1.0 / (squares / width as f32 + eps).sqrt();
        row.iter().enumerate().map(|(i, value)| value * factor * weight.map_or(1.0, |w| w[i])).collect()
    };
    x.chunks(width).flat_map(one).collect()
}

/// `(x - mean) / sqrt(variance + eps) * weight + bias`, per row of `width`.
pub fn layer_norm(
    x: &[f32],
    (weight, bias): (&[f32], &[f32]),
    eps: f32,
    width: usize,
    fault: Option<RowsFault>,
) -> Vec<f32> {
    let one = |row: &[f32]| -> Vec<f32> {
        let mean = sum(row, 4, fault, |sum, value| sum + value) / width as f32;
        let squares = sum(row, 4, fault, |sum, value| (value - mean).mul_add(value - mean, sum));
        let factor = 1.0 / (squares / width as f32 + eps).sqrt();
        row.iter().enumerate().map(|(i, value)| (value - mean) * factor * weight[i] + bias[i]).collect()
    };
    x.chunks(width).flat_map(one).collect()
}

/// Softmax of every row of `width`: exponentials of the differences to the largest, times one over their sum.
pub fn softmax_rows(x: &[f32], width: usize, fault: Option<RowsFault>) -> Vec<f32> {
    let one = |row: &[f32]| -> Vec<f32> {
        let largest = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let powers: Vec<f32> = row.iter().map(|value| exp(value - largest)).collect();
        let factor = 1.0 / sum(&powers, 1, fault, |sum, value| sum + value);
        powers.into_iter().map(|power| power * factor).collect()
    };
    x.chunks(width).flat_map(one).collect()
}

/// Rotates rows of heads: the angle is the f32 product of position and frequency; its cosine and sine are computed in
/// f64, rounded and then multiplied. The first of a pair `(x, y)` becomes `x cos - y sin`, the second `y cos + x sin`;
/// the product with the cosine is rounded, the other fused.
pub fn rope(rope: &Rope, positions: &[u32], x: &mut [f32]) {
    let (half, width) = (rope.inv_freq.len(), x.len() / positions.len());
    for (row, &position) in x.chunks_mut(width).zip(positions) {
        for head in row.chunks_mut(rope.head_dim) {
            for (i, frequency) in rope.inv_freq.iter().enumerate() {
                let (sin, cos) = libm::sincos(f64::from(position as f32 * frequency));
                let (sin, cos) = (sin as f32 * rope.magnitude, cos as f32 * rope.magnitude);
                let (a, b) = match rope.pairs {
                    RopePairs::Adjacent => (2 * i, 2 * i + 1),
                    RopePairs::Halves => (i, i + half),
                };
                let (x, y) = (head[a], head[b]);
                head[a] = (-y).mul_add(sin, x * cos);
                head[b] = x.mul_add(sin, y * cos);
            }
        }
    }
}

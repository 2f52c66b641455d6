//! One block's step of the streaming softmax (Milakov and Gimelshein 2018) for a few rows.

#![allow(
    clippy::needless_range_loop,
    reason = "loops over registers of constant number read better by index"
)]

use super::BLOCK;
use super::biases::Distance;
use crate::pointwise::{Pointwise, Softcap};
use crate::simd::{Kernel, LANES, Simd, exp};

/// Rows of one step at most: their factors fill one vector.
pub(super) const STRIP: usize = 12;

/// Scores of one block become weights; the running maxima and sums move on.
pub(super) struct OnlineSoftmax<'a> {
    /// Scores in, weights out; keys that a row does not see get the weight zero.
    pub(super) scores: &'a mut [[f32; BLOCK]],
    /// The keys of the block that each row sees.
    pub(super) visible: &'a [(usize, usize)],
    pub(super) softcap: Option<f32>,
    /// What distance adds to the scores.
    pub(super) distance: Option<Distance<'a>>,
    /// The largest score so far, minus infinity before the first.
    pub(super) max: &'a mut [f32],
    /// The sum of the weights so far, relative to `max`.
    pub(super) sums: &'a mut [f32],
    /// Gets what earlier results have to be multiplied by.
    pub(super) alpha: &'a mut [f32],
}

impl Kernel for OnlineSoftmax<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let rows = self.scores.len().min(STRIP);
        let mut change = [0.0; LANES];
        for row in 0..rows {
            let scores = &mut self.scores[row];
            let (low, high) = self.visible[row];
            if low >= high {
                continue;
            }
            if let Some(cap) = self.softcap {
                for vector in scores.as_chunks_mut::<LANES>().0 {
                    let value = s.load(vector);
                    s.store(vector, Softcap(cap).apply(s, value, value));
                }
            }
            if let Some(distance) = self.distance {
                distance.apply(s, row, scores);
            }
            scores[..low].fill(f32::NEG_INFINITY);
            scores[high..].fill(f32::NEG_INFINITY);
            let [a, b, c, d] = quarters(s, scores);
            let max = s.largest(s.max(s.max(a, b), s.max(c, d))).max(self.max[row]);
            if max != self.max[row] {
                change[row] = self.max[row] - max;
                self.max[row] = max;
            }
        }
        let alpha = s.lanes(exp(s, s.load(&change)));
        for row in 0..rows {
            let scores = &mut self.scores[row];
            self.alpha[row] = alpha[row];
            if self.visible[row].0 >= self.visible[row].1 {
                scores.fill(0.0);
                continue;
            }
            let max = s.splat(self.max[row]);
            let parts = quarters(s, scores);
            let mut sum = s.splat(0.0);
            for (vector, part) in scores.as_chunks_mut::<LANES>().0.iter_mut().zip(parts) {
                let weight = exp(s, s.sub(part, max));
                sum = s.add(sum, weight);
                s.store(vector, weight);
            }
            self.sums[row] = self.sums[row] * alpha[row] + s.sum(sum);
        }
    }
}

/// The scores of a block as vectors.
#[inline(always)]
fn quarters<S: Simd>(s: S, scores: &[f32; BLOCK]) -> [S::F; BLOCK / LANES] {
    let (vectors, _) = scores.as_chunks::<LANES>();
    [s.load(&vectors[0]), s.load(&vectors[1]), s.load(&vectors[2]), s.load(&vectors[3])]
}

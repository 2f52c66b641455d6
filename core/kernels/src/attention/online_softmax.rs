//! One block's step of the streaming softmax (Milakov and Gimelshein 2018) for a few rows.

#![allow(
    clippy::needless_range_loop,
    reason = "loops over registers of constant number read better by index"
)]

use super::BLOCK;
use super::biases::Distance;
use crate::pointwise::{Pointwise, Softcap};
use crate::simd::{Kernel, LANES, Simd, exp};

/// The most rows of one step: their factors fill one vector.
pub(super) const TILE_ROWS: usize = 12;

/// Turns the scores of one block into weights and updates the running maxima and sums. Row `i` uses lane `i` of the
/// per-row vectors; lanes without a row are undefined.
pub(super) struct OnlineSoftmax<'a> {
    /// Scores on input, weights on output; keys that a row does not see get the weight zero.
    pub(super) scores: &'a mut [[f32; BLOCK]],
    /// The keys of the block that each row sees, if not every row sees all of them.
    pub(super) visible: Option<&'a [(usize, usize); TILE_ROWS]>,
    pub(super) softcap: Option<f32>,
    /// The bias by distance.
    pub(super) distance: Option<Distance<'a>>,
    /// The largest score so far, minus infinity before the first.
    pub(super) max: &'a mut [f32; LANES],
    /// The sum of the weights so far, relative to `max`.
    pub(super) sums: &'a mut [f32; LANES],
    /// Receives the factor of earlier results.
    pub(super) alpha: &'a mut [f32; LANES],
}

impl Kernel for OnlineSoftmax<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(mut self, s: S) {
        match self.scores.len() {
            ..=4 => self.rows::<S, 4>(s),
            _ => self.rows::<S, TILE_ROWS>(s),
        }
    }
}

impl OnlineSoftmax<'_> {
    /// Up to `R` rows.
    #[inline(always)]
    fn rows<S: Simd, const R: usize>(&mut self, s: S) {
        let rows = self.scores.len().min(R);
        if self.visible.is_some() || self.softcap.is_some() || self.distance.is_some() {
            for row in 0..rows {
                self.prepare(s, row);
            }
        }
        let mut largest = [s.splat(f32::NEG_INFINITY); R];
        for row in 0..rows {
            let [a, b, c, d] = quarters(s, &self.scores[row]);
            largest[row] = s.max(s.max(a, b), s.max(c, d));
        }
        let before = s.load(self.max);
        let max = s.max(s.largests(&largest), before);
        let zero = s.splat(0.0);
        let alpha = exp(s, s.select_lt(before, max, s.sub(before, max), zero));
        s.store(self.max, max);
        s.store(self.alpha, alpha);
        let mut sums = [zero; R];
        for row in 0..rows {
            let scores = &mut self.scores[row];
            if self.visible.is_some_and(|visible| visible[row].0 >= visible[row].1) {
                scores.fill(0.0);
                continue;
            }
            let max = s.splat(self.max[row]);
            let parts = quarters(s, scores);
            let mut sum = zero;
            for (vector, part) in scores.as_chunks_mut::<LANES>().0.iter_mut().zip(parts) {
                let weight = exp(s, s.sub(part, max));
                sum = s.add(sum, weight);
                s.store(vector, weight);
            }
            sums[row] = sum;
        }
        let sum = s.add(s.mul(s.load(self.sums), alpha), s.sums(&sums));
        s.store(self.sums, sum);
    }

    /// Applies the cap and the distance to a row's scores; keys that it does not see get minus infinity.
    #[inline(always)]
    fn prepare<S: Simd>(&mut self, s: S, row: usize) {
        let scores = &mut self.scores[row];
        let (low, high) = self.visible.map_or((0, BLOCK), |visible| visible[row]);
        if low >= high {
            scores.fill(f32::NEG_INFINITY);
            return;
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
    }
}

/// The scores of a block as vectors.
#[inline(always)]
fn quarters<S: Simd>(s: S, scores: &[f32; BLOCK]) -> [S::F; BLOCK / LANES] {
    let (vectors, _) = scores.as_chunks::<LANES>();
    [s.load(&vectors[0]), s.load(&vectors[1]), s.load(&vectors[2]), s.load(&vectors[3])]
}

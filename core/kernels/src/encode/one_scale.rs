//! Groups with a scale and no minimum: the scale with the least weighted square error.

use super::levels::Levels;
use super::panel::{Effort, Panel, TINY, inverse};
use crate::simd::Simd;

/// Times a scale is improved by least squares with the numbers that it gave.
const ROUNDS: usize = 3;

/// What decides how good a scale is, per group: with the numbers `q` that it gives, the error is
/// `sum w x^2 - along^2 / square` at the best scale `along / square`.
pub(super) struct Sums<S: Simd> {
    /// `sum w x q`.
    pub along: S::F,
    /// `sum w q^2`.
    pub square: S::F,
}

/// The sums for numbers nearest to `x * inverse`.
#[inline(always)]
pub(super) fn sums<S: Simd, L: Levels, const N: usize>(
    s: S,
    levels: L,
    panel: &Panel<S, N>,
    inverse: S::F,
) -> Sums<S> {
    let (mut along, mut square) = (s.splat(0.0), s.splat(0.0));
    for i in 0..N {
        let q = levels.nearest(s, s.mul(panel.x[i], inverse));
        along = s.add(along, s.mul(panel.wx[i], q));
        square = s.add(square, s.mul(s.mul(panel.w[i], q), q));
    }
    Sums { along, square }
}

/// `sum w (x - scale q)^2` with the numbers nearest for that scale.
#[inline(always)]
pub(super) fn error<S: Simd, L: Levels, const N: usize>(
    s: S,
    levels: L,
    panel: &Panel<S, N>,
    scale: S::F,
) -> S::F {
    let (inverse, mut sum) = (inverse(s, scale), s.splat(0.0));
    for i in 0..N {
        let q = levels.nearest(s, s.mul(panel.x[i], inverse));
        let off = s.sub(panel.x[i], s.mul(scale, q));
        sum = s.add(sum, s.mul(s.mul(panel.w[i], off), off));
    }
    sum
}

/// The value of largest magnitude of each group; zero where that is tiny.
#[inline(always)]
fn largest<S: Simd, const N: usize>(s: S, panel: &Panel<S, N>) -> S::F {
    let (mut size, mut value) = (s.splat(0.0), s.splat(0.0));
    for i in 0..N {
        let magnitude = s.abs(panel.x[i]);
        value = s.select_lt(size, magnitude, panel.x[i], value);
        size = s.max(size, magnitude);
    }
    s.select_lt(size, s.splat(TINY), s.splat(0.0), value)
}

/// The best scale found so far for each group.
struct Best<S: Simd> {
    scale: S::F,
    square: S::F,
    gain: S::F,
}

impl<S: Simd> Best<S> {
    /// Takes what a candidate gives wherever it is better.
    #[inline(always)]
    fn take(&mut self, s: S, found: &Sums<S>) {
        let scale = s.mul(found.along, inverse(s, found.square));
        let gain = s.mul(found.along, scale);
        self.scale = s.select_lt(self.gain, gain, scale, self.scale);
        self.square = s.select_lt(self.gain, gain, found.square, self.square);
        self.gain = s.max(gain, self.gain);
    }
}

/// The best scale found for each group and `sum w q^2` with it.
#[inline(always)]
pub(super) fn fit<S: Simd, L: Levels, const N: usize>(
    s: S,
    levels: L,
    panel: &Panel<S, N>,
    effort: Effort,
) -> (S::F, S::F) {
    let zero = s.splat(0.0);
    let unit = inverse(s, largest(s, panel));
    let mut best = Best { scale: zero, square: zero, gain: zero };
    let mut at = 0;
    while at < levels.anchors().len() {
        best.take(s, &sums(s, levels, panel, s.mul(unit, s.splat(levels.anchors()[at]))));
        at += effort.stride();
    }
    for _ in 0..ROUNDS {
        best.take(s, &sums(s, levels, panel, inverse(s, best.scale)));
    }
    (best.scale, best.square)
}

/// The stored numbers for given scales.
#[inline(always)]
pub(super) fn codes<S: Simd, L: Levels, const N: usize>(
    s: S,
    levels: L,
    panel: &Panel<S, N>,
    scale: S::F,
) -> [S::F; N] {
    let inverse = inverse(s, scale);
    let mut codes = panel.x;
    for code in &mut codes {
        *code = levels.code(s, s.mul(*code, inverse));
    }
    codes
}

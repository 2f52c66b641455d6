//! Groups with a scale and no minimum: the scale with the least weighted square error.

use super::levels::Levels;
use super::panel::{Effort, NO_NUMBERS, Numbers, Panel, TINY, inverse};
use crate::simd::{Kernel, LANES, Simd};

/// How many times a scale is improved by least squares with its own numbers.
const ROUNDS: usize = 3;

/// The sums that decide how good a scale is, per group: with its numbers `q` the error is
/// `sum w x^2 - along^2 / square` at the best scale `along / square`.
pub(super) struct ScaleSums<S: Simd> {
    /// `sum w x q`.
    pub along: S::F,
    /// `sum w q^2`.
    pub square: S::F,
}

/// The sums for numbers nearest to `x * inverse`.
#[inline(always)]
pub(super) fn sums<S: Simd, L: Levels>(s: S, levels: L, panel: &Panel, inverse: S::F) -> ScaleSums<S> {
    let [along, square] = s.call(SumsAt { levels, panel, inverse: s.lanes(inverse) });
    ScaleSums { along: s.load(&along), square: s.load(&square) }
}

struct SumsAt<'a, L> {
    levels: L,
    panel: &'a Panel,
    inverse: [f32; LANES],
}

impl<L: Levels> Kernel for SumsAt<'_, L> {
    type Output = [[f32; LANES]; 2];

    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> Self::Output {
        let (mut along, mut square, inverse) = (s.splat(0.0), s.splat(0.0), s.load(&self.inverse));
        for column in self.panel.columns() {
            let q = self.levels.nearest(s, s.mul(s.load(&column.x), inverse));
            along = s.add(along, s.mul(s.load(&column.wx), q));
            square = s.add(square, s.mul(s.mul(s.load(&column.w), q), q));
        }
        [s.lanes(along), s.lanes(square)]
    }
}

/// `sum w (x - scale q)^2` with the numbers nearest for that scale.
#[inline(always)]
pub(super) fn error<S: Simd, L: Levels>(s: S, levels: L, panel: &Panel, scale: S::F) -> S::F {
    s.load(&s.call(ErrorAt { levels, panel, scale: s.lanes(scale) }))
}

struct ErrorAt<'a, L> {
    levels: L,
    panel: &'a Panel,
    scale: [f32; LANES],
}

impl<L: Levels> Kernel for ErrorAt<'_, L> {
    type Output = [f32; LANES];

    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> [f32; LANES] {
        let scale = s.load(&self.scale);
        let (inverse, mut sum) = (inverse(s, scale), s.splat(0.0));
        for column in self.panel.columns() {
            let x = s.load(&column.x);
            let q = self.levels.nearest(s, s.mul(x, inverse));
            let off = s.sub(x, s.mul(scale, q));
            sum = s.add(sum, s.mul(s.mul(s.load(&column.w), off), off));
        }
        s.lanes(sum)
    }
}

/// The value of largest magnitude of each group; zero if that is tiny.
#[inline(always)]
fn largest<S: Simd>(s: S, panel: &Panel) -> S::F {
    let (mut size, mut value) = (s.splat(0.0), s.splat(0.0));
    for column in panel.columns() {
        let x = s.load(&column.x);
        let magnitude = s.abs(x);
        value = s.select_lt(size, magnitude, x, value);
        size = s.max(size, magnitude);
    }
    s.select_lt(size, s.splat(TINY), s.splat(0.0), value)
}

/// The best scale found so far for each group.
struct BestScale<S: Simd> {
    scale: S::F,
    square: S::F,
    gain: S::F,
}

impl<S: Simd> BestScale<S> {
    /// Takes the result of a candidate wherever it is better.
    #[inline(always)]
    fn take(&mut self, s: S, found: &ScaleSums<S>) {
        let scale = s.mul(found.along, inverse(s, found.square));
        let gain = s.mul(found.along, scale);
        self.scale = s.select_lt(self.gain, gain, scale, self.scale);
        self.square = s.select_lt(self.gain, gain, found.square, self.square);
        self.gain = s.max(gain, self.gain);
    }
}

/// The best scale found for each group and `sum w q^2` with it.
#[inline(always)]
pub(super) fn fit<S: Simd, L: Levels>(s: S, levels: L, panel: &Panel, effort: Effort) -> (S::F, S::F) {
    let zero = s.splat(0.0);
    let unit = inverse(s, largest(s, panel));
    let mut best = BestScale { scale: zero, square: zero, gain: zero };
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
pub(super) fn codes<S: Simd, L: Levels>(s: S, levels: L, panel: &Panel, scale: S::F) -> Numbers {
    let (inverse, mut codes) = (inverse(s, scale), NO_NUMBERS);
    for (code, column) in codes.iter_mut().zip(panel.columns()) {
        s.store(code, levels.code(s, s.mul(s.load(&column.x), inverse)));
    }
    codes
}

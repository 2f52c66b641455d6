//! Groups with a scale and a minimum: `x` is about `scale * q - minimum`, `q` from 0 to `top`.

use half::f16;

use super::panel::{Effort, NO_NUMBERS, Numbers, Panel, TINY, inverse};
use super::scales::{factor, numbers, spread, total};
use crate::simd::{Kernel, LANES, Simd};

/// How many times a line is improved by least squares with its own numbers.
const ROUNDS: usize = 2;

/// What a minimum may be.
pub(super) trait Sign {
    /// The lower end of a group whose least value is `least`.
    fn lower<S: Simd>(s: S, least: S::F) -> S::F;
}

/// It is stored as an f16 of either sign.
pub(super) struct Any;
impl Sign for Any {
    #[inline(always)]
    fn lower<S: Simd>(_: S, least: S::F) -> S::F {
        least
    }
}

/// The subtracted minimum is never negative.
pub(super) struct Subtracted;
impl Sign for Subtracted {
    #[inline(always)]
    fn lower<S: Simd>(s: S, least: S::F) -> S::F {
        s.min(least, s.splat(0.0))
    }
}

/// How far from the top the largest value of a group is tried.
fn steps(top: f32) -> &'static [f32] {
    if top == 3.0 {
        &[
            -1.3, -1.1, -1.0, -0.9, -0.8, -0.7, -0.6, -0.5, -0.4, -0.3, -0.2, -0.1, 0.0, 0.1, 0.2, 0.3, 0.4,
            0.5, 0.6, 0.7, 0.8, 0.9,
        ]
    } else {
        &[-1.0, -0.85, -0.7, -0.55, -0.4, -0.3, -0.2, -0.1, 0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.75, 0.9]
    }
}

/// A line per group: `scale * q - minimum`.
pub(super) struct Lines<S: Simd> {
    pub scale: S::F,
    pub minimum: S::F,
    /// `sum w q^2`.
    pub square: S::F,
}

/// Sums over a group, for the numbers `q` of a candidate.
struct LineSums<S: Simd> {
    wq: S::F,
    wq2: S::F,
    wqx: S::F,
}

/// With the numbers nearest to `(x + minimum) * inverse`.
#[inline(always)]
fn sums<S: Simd>(s: S, top: f32, panel: &Panel, minimum: S::F, inverse: S::F) -> LineSums<S> {
    let [wq, wq2, wqx] =
        s.call(LineSumsAt { top, panel, minimum: s.lanes(minimum), inverse: s.lanes(inverse) });
    LineSums { wq: s.load(&wq), wq2: s.load(&wq2), wqx: s.load(&wqx) }
}

struct LineSumsAt<'a> {
    top: f32,
    panel: &'a Panel,
    minimum: [f32; LANES],
    inverse: [f32; LANES],
}

impl Kernel for LineSumsAt<'_> {
    type Output = [[f32; LANES]; 3];

    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> Self::Output {
        let (zero, top) = (s.splat(0.0), s.splat(self.top));
        let (minimum, inverse) = (s.load(&self.minimum), s.load(&self.inverse));
        let (mut wq, mut wq2, mut wqx) = (zero, zero, zero);
        for column in self.panel.columns() {
            let q = s.round(s.mul(s.add(s.load(&column.x), minimum), inverse));
            let q = s.max(s.min(q, top), zero);
            let w = s.mul(s.load(&column.w), q);
            wq = s.add(wq, w);
            wq2 = s.add(wq2, s.mul(w, q));
            wqx = s.add(wqx, s.mul(s.load(&column.wx), q));
        }
        [s.lanes(wq), s.lanes(wq2), s.lanes(wqx)]
    }
}

/// `sum w (x + minimum - scale q)^2` with the numbers nearest for that line.
#[inline(always)]
fn error<S: Simd>(s: S, top: f32, panel: &Panel, minimum: S::F, scale: S::F) -> S::F {
    s.load(&s.call(LineErrorAt { top, panel, minimum: s.lanes(minimum), scale: s.lanes(scale) }))
}

struct LineErrorAt<'a> {
    top: f32,
    panel: &'a Panel,
    minimum: [f32; LANES],
    scale: [f32; LANES],
}

impl Kernel for LineErrorAt<'_> {
    type Output = [f32; LANES];

    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> [f32; LANES] {
        let (zero, top) = (s.splat(0.0), s.splat(self.top));
        let (minimum, scale) = (s.load(&self.minimum), s.load(&self.scale));
        let (inverse, mut sum) = (inverse(s, scale), zero);
        for column in self.panel.columns() {
            let x = s.add(s.load(&column.x), minimum);
            let q = s.max(s.min(s.round(s.mul(x, inverse)), top), zero);
            let off = s.sub(x, s.mul(scale, q));
            sum = s.add(sum, s.mul(s.mul(s.load(&column.w), off), off));
        }
        s.lanes(sum)
    }
}

/// The search of [`fit`]: the group's values above its lower end, and the best line so far.
struct Search<S: Simd> {
    /// `x - lower`.
    above: Panel,
    lower: S::F,
    /// `sum w`, `sum w (x - lower)`.
    weight: S::F,
    sum: S::F,
    /// The best line is `scale * q + offset` above the lower end.
    scale: S::F,
    offset: S::F,
    square: S::F,
    gain: S::F,
}

impl<S: Simd> Search<S> {
    /// Takes the line of least squares through the numbers of a candidate wherever it is better: with
    /// `scale = (W wqx - X wq) / D`, `offset = (wq2 X - wq wqx) / D`, `D = W wq2 - wq^2`. If the subtracted minimum
    /// would be negative, the offset is the one that makes it zero.
    #[inline(always)]
    fn take<M: Sign>(&mut self, s: S, at: &LineSums<S>) {
        let two = s.splat(2.0);
        let d = s.sub(s.mul(self.weight, at.wq2), s.mul(at.wq, at.wq));
        // If all numbers are the same, the scale is undetermined.
        let enough = s.mul(s.splat(1e-5), s.mul(self.weight, at.wq2));
        let d = s.select_lt(enough, d, inverse(s, d), s.splat(0.0));
        let offset = s.mul(s.sub(s.mul(at.wq2, self.sum), s.mul(at.wq, at.wqx)), d);
        let end = s.add(self.lower, offset);
        let offset = s.sub(M::lower(s, end), self.lower);
        // For a given offset the best scale is that of the remainder; for the best offset it is the one above.
        let scale = s.mul(s.sub(at.wqx, s.mul(offset, at.wq)), inverse(s, at.wq2));
        let mut gain = s.mul(two, s.add(s.mul(scale, at.wqx), s.mul(offset, self.sum)));
        gain = s.sub(gain, s.mul(s.mul(scale, scale), at.wq2));
        gain = s.sub(gain, s.mul(s.mul(two, s.mul(scale, offset)), at.wq));
        gain = s.sub(gain, s.mul(s.mul(offset, offset), self.weight));
        self.scale = s.select_lt(self.gain, gain, scale, self.scale);
        self.offset = s.select_lt(self.gain, gain, offset, self.offset);
        self.square = s.select_lt(self.gain, gain, at.wq2, self.square);
        self.gain = s.max(gain, self.gain);
    }
}

/// The best line found for each group.
#[inline(always)]
pub(super) fn fit<S: Simd, M: Sign>(s: S, top: f32, panel: &Panel, effort: Effort) -> Lines<S> {
    let zero = s.splat(0.0);
    let first = s.load(&panel.columns()[0].x);
    let (mut least, mut most) = (first, first);
    for column in &panel.columns()[1..] {
        let x = s.load(&column.x);
        least = s.min(x, least);
        most = s.max(x, most);
    }
    let lower = M::lower(s, least);
    let (mut above, mut weight, mut sum) = (*panel, zero, zero);
    for column in above.columns_mut() {
        let (x, w) = (s.sub(s.load(&column.x), lower), s.load(&column.w));
        let wx = s.mul(w, x);
        s.store(&mut column.x, x);
        s.store(&mut column.wx, wx);
        weight = s.add(weight, w);
        sum = s.add(sum, wx);
    }
    let range = s.sub(most, lower);
    let unit = s.select_lt(range, s.splat(TINY), zero, inverse(s, range));
    let mut search =
        Search { above, lower, weight, sum, scale: zero, offset: zero, square: zero, gain: zero };
    let (mut at, steps) = (0, steps(top));
    while at < steps.len() {
        let inverse = s.mul(unit, s.splat(top + steps[at]));
        let found = sums(s, top, &search.above, zero, inverse);
        search.take::<M>(s, &found);
        at += effort.stride();
    }
    for _ in 0..ROUNDS {
        let minimum = s.sub(zero, search.offset);
        let found = sums(s, top, &search.above, minimum, inverse(s, search.scale));
        search.take::<M>(s, &found);
    }
    let minimum = s.sub(zero, s.add(search.lower, search.offset));
    Lines { scale: search.scale, minimum, square: search.square }
}

/// The stored numbers for given lines.
#[inline(always)]
pub(super) fn codes<S: Simd>(s: S, top: f32, panel: &Panel, minimum: S::F, scale: S::F) -> Numbers {
    let (zero, top, inverse) = (s.splat(0.0), s.splat(top), inverse(s, scale));
    let mut codes = NO_NUMBERS;
    for (code, column) in codes.iter_mut().zip(panel.columns()) {
        let q = s.round(s.mul(s.add(s.load(&column.x), minimum), inverse));
        s.store(code, s.max(s.min(q, top), zero));
    }
    codes
}

/// Lines of the groups of super-blocks, in the form in which they are stored.
pub(super) struct SharedLines<S: Simd> {
    /// The factors of scales and of minima, per super-block.
    pub factors: [[f16; 2]; 2],
    /// The integer of each scale.
    pub scale_numbers: S::F,
    /// The integer of each minimum.
    pub minimum_numbers: S::F,
    /// Each scale.
    pub scale: S::F,
    /// Each minimum.
    pub minimum: S::F,
}

/// Finds them: the best line of each group, the best factors for these, the best pair of integers near each, and the
/// factors once more by least squares over all values. Integers go from 0 to `most`.
#[inline(always)]
pub(super) fn share<S: Simd, const G: usize>(s: S, top: f32, panel: &Panel, most: f32) -> SharedLines<S> {
    let lines = fit::<S, Subtracted>(s, top, panel, Effort::Full);
    let (scales, minima) = (s.lanes(lines.scale), s.lanes(lines.minimum));
    let (squares, weights) = (s.lanes(lines.square), s.lanes(panel.weight(s)));
    let mut factors = [[f16::ZERO; 2]; 2];
    for block in 0..LANES / G {
        let at = block * G..block * G + G;
        factors[0][block] = factor(s, &scales[at.clone()], &squares[at.clone()], 0.0, most);
        factors[1][block] = factor(s, &minima[at.clone()], &weights[at], 0.0, most);
    }
    let d = [spread::<S, G>(s, &factors[0]), spread::<S, G>(s, &factors[1])];
    let first = [numbers(s, lines.scale, d[0], 0.0, most), numbers(s, lines.minimum, d[1], 0.0, most)];
    let (mut l, mut off) = (first, error(s, top, panel, s.mul(d[1], first[1]), s.mul(d[0], first[0])));
    for scale_step in [-1.0, 0.0, 1.0] {
        for minimum_step in [-1.0, 0.0, 1.0] {
            let scale = near(s, first[0], scale_step, most);
            let minimum = near(s, first[1], minimum_step, most);
            let found = error(s, top, panel, s.mul(d[1], minimum), s.mul(d[0], scale));
            l[0] = s.select_lt(found, off, scale, l[0]);
            l[1] = s.select_lt(found, off, minimum, l[1]);
            off = s.min(found, off);
        }
    }
    let better = refit::<S, G>(s, top, panel, &factors, &l);
    let d = [spread::<S, G>(s, &better[0]), spread::<S, G>(s, &better[1])];
    let found = error(s, top, panel, s.mul(d[1], l[1]), s.mul(d[0], l[0]));
    for block in 0..LANES / G {
        if total::<S, G>(s, found, block) < total::<S, G>(s, off, block) {
            factors[0][block] = better[0][block];
            factors[1][block] = better[1][block];
        }
    }
    let (scale, minimum) = (spread::<S, G>(s, &factors[0]), spread::<S, G>(s, &factors[1]));
    SharedLines {
        factors,
        scale_numbers: l[0],
        minimum_numbers: l[1],
        scale: s.mul(scale, l[0]),
        minimum: s.mul(minimum, l[1]),
    }
}

#[inline(always)]
fn near<S: Simd>(s: S, number: S::F, step: f32, most: f32) -> S::F {
    s.max(s.min(s.add(number, s.splat(step)), s.splat(most)), s.splat(0.0))
}

/// The factors of least squares for given integers: with `x` about `d (l q) - e m`, two equations per super-block.
#[inline(always)]
fn refit<S: Simd, const G: usize>(
    s: S,
    top: f32,
    panel: &Panel,
    factors: &[[f16; 2]; 2],
    l: &[S::F; 2],
) -> [[f16; 2]; 2] {
    let [l, m] = *l;
    let minimum = s.mul(spread::<S, G>(s, &factors[1]), m);
    let scale = s.mul(spread::<S, G>(s, &factors[0]), l);
    let at = sums(s, top, panel, minimum, inverse(s, scale));
    let mut sum = s.splat(0.0);
    for column in panel.columns() {
        sum = s.add(sum, s.load(&column.wx));
    }
    let square = s.mul(s.mul(l, l), at.wq2);
    let mixed = s.mul(s.mul(l, m), at.wq);
    let weight = s.mul(s.mul(m, m), panel.weight(s));
    let (along, down) = (s.mul(l, at.wqx), s.mul(m, sum));
    let mut better = *factors;
    for block in 0..LANES / G {
        let of = |lanes| f64::from(total::<S, G>(s, lanes, block));
        let (a, b, c, x, y) = (of(square), of(mixed), of(weight), of(along), of(down));
        // a d - b e = x; b d - c e = y.
        let det = b * b - a * c;
        let (d, e) = if det < -1e-6 * a * c {
            ((b * y - c * x) / det, (a * y - b * x) / det)
        } else if a > 0.0 && c == 0.0 {
            (x / a, 0.0)
        } else {
            continue;
        };
        if d >= 0.0 && e >= 0.0 {
            (better[0][block], better[1][block]) = (f16::from_f64(d), f16::from_f64(e));
        }
    }
    better
}

//! The few bits of the scales of a super-block: one factor for all, an integer for each.

use half::f16;

use super::levels::Levels;
use super::one_scale::{error, fit, sums};
use super::panel::{Effort, Panel, inverse};
use crate::simd::{Kernel, LANES, Simd};

/// How far from the end of the integers the largest scale is tried.
const STEPS: [f32; LANES] =
    [-1.0, -0.8, -0.6, -0.45, -0.3, -0.2, -0.1, 0.0, 0.1, 0.2, 0.3, 0.45, 0.6, 0.8, 1.0, 1.3];

/// The factor `d` for which `sum weight (value - d l)^2` with integers `l` from `low` to `high` is least: sixteen
/// candidates in lanes, each improved by least squares. The result is rounded to f16.
#[inline(always)]
pub(super) fn factor<S: Simd>(s: S, values: &[f32], weights: &[f32], low: f32, high: f32) -> f16 {
    s.call(FactorOf { values, weights, low, high })
}

struct FactorOf<'a> {
    values: &'a [f32],
    weights: &'a [f32],
    low: f32,
    high: f32,
}

impl Kernel for FactorOf<'_> {
    type Output = f16;

    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> f16 {
        let FactorOf { values, weights, low, high } = self;
        least_squares(s, values, weights, [low, high])
    }
}

#[inline(always)]
fn least_squares<S: Simd>(s: S, values: &[f32], weights: &[f32], [low, high]: [f32; 2]) -> f16 {
    let mut extreme = 0f32;
    for &value in values {
        extreme = if value.abs() > extreme.abs() { value } else { extreme };
    }
    if extreme.abs() < 1e-20 {
        return f16::ZERO;
    }
    // The end with the larger magnitude takes the largest value.
    let end = if low < 0.0 { low } else { high };
    let unit = s.mul(s.add(s.splat(end), s.load(&STEPS)), s.splat(1.0 / extreme));
    let (mut along, mut square) = (s.splat(0.0), s.splat(0.0));
    for (&value, &weight) in values.iter().zip(weights) {
        let l = s.max(s.min(s.round(s.mul(unit, s.splat(value))), s.splat(high)), s.splat(low));
        let wl = s.mul(l, s.splat(weight));
        along = s.add(along, s.mul(wl, s.splat(value)));
        square = s.add(square, s.mul(wl, l));
    }
    let scale = s.mul(along, inverse(s, square));
    let (gains, scales) = (s.lanes(s.mul(along, scale)), s.lanes(scale));
    let (mut best, mut gain) = (extreme / end, 0.0);
    for i in 0..LANES {
        if gains[i] > gain {
            (best, gain) = (scales[i], gains[i]);
        }
    }
    f16::from_f32(best)
}

/// The nearest integers from `low` to `high`; zero if the factor is zero.
#[inline(always)]
pub(super) fn numbers<S: Simd>(s: S, values: S::F, factor: S::F, low: f32, high: f32) -> S::F {
    s.max(s.min(s.round(s.mul(values, inverse(s, factor))), s.splat(high)), s.splat(low))
}

/// One factor per super-block of `G` groups, broadcast to the lanes.
#[inline(always)]
pub(super) fn spread<S: Simd, const G: usize>(s: S, factors: &[f16; 2]) -> S::F {
    let mut lanes = [0.0; LANES];
    for g in 0..LANES {
        lanes[g] = factors[g / G].to_f32();
    }
    s.load(&lanes)
}

/// The sum over the groups of a super-block.
#[inline(always)]
pub(super) fn total<S: Simd, const G: usize>(s: S, lanes: S::F, block: usize) -> f32 {
    s.lanes(lanes)[block * G..][..G].iter().sum()
}

/// Scales of groups without minima, in the form in which they are stored.
pub(super) struct SharedScales<S: Simd> {
    /// Per super-block.
    pub factors: [f16; 2],
    /// The integer of each group.
    pub numbers: S::F,
    /// Their product.
    pub scales: S::F,
}

/// Finds them: the best scale of each group, the best factor for these, the best integer near each, and the factor once
/// more by least squares over all values.
#[inline(always)]
pub(super) fn share<S: Simd, L: Levels, const G: usize>(
    s: S,
    levels: L,
    panel: &Panel,
    low: f32,
    high: f32,
) -> SharedScales<S> {
    let (scale, square) = fit(s, levels, panel, Effort::Full);
    let (values, weights) = (s.lanes(scale), s.lanes(square));
    let mut factors = [f16::ZERO; 2];
    for block in 0..LANES / G {
        let at = block * G..block * G + G;
        factors[block] = factor(s, &values[at.clone()], &weights[at], low, high);
    }
    let mut d = spread::<S, G>(s, &factors);
    let first = numbers(s, scale, d, low, high);
    let (mut l, mut off) = (first, error(s, levels, panel, s.mul(d, first)));
    for step in [-1.0, 1.0] {
        let other = s.max(s.min(s.add(first, s.splat(step)), s.splat(high)), s.splat(low));
        let found = error(s, levels, panel, s.mul(d, other));
        l = s.select_lt(found, off, other, l);
        off = s.min(found, off);
    }
    let found = sums(s, levels, panel, inverse(s, s.mul(d, l)));
    let (along, square) = (s.mul(l, found.along), s.mul(s.mul(l, l), found.square));
    let mut better = factors;
    for block in 0..LANES / G {
        let square = total::<S, G>(s, square, block);
        if square > 0.0 {
            better[block] = f16::from_f32(total::<S, G>(s, along, block) / square);
        }
    }
    let found = error(s, levels, panel, s.mul(spread::<S, G>(s, &better), l));
    for block in 0..LANES / G {
        if total::<S, G>(s, found, block) < total::<S, G>(s, off, block) {
            factors[block] = better[block];
        }
    }
    d = spread::<S, G>(s, &factors);
    SharedScales { factors, numbers: l, scales: s.mul(d, l) }
}

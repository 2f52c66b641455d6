//! The values that a stored number can stand for, in units of its group's scale.

use crate::blocks::{IQ4_LEVELS, MXFP4_LEVELS};
use crate::simd::Simd;

/// A set of levels, symmetric or not.
pub(super) trait Levels: Copy {
    /// The levels that the value of largest magnitude may get in the search of a scale.
    fn anchors(self) -> &'static [f32];
    /// The level nearest to each lane.
    fn nearest<S: Simd>(self, s: S, value: S::F) -> S::F;
    /// The stored number of the level nearest to each lane.
    fn code<S: Simd>(self, s: S, value: S::F) -> S::F;
}

/// The integers from `low` to `high`, stored as their distance from `low`.
#[derive(Clone, Copy)]
pub(super) struct IntegerLevels {
    low: f32,
    high: f32,
    anchors: &'static [f32],
}

/// Steps of a tenth of a level around the ends.
macro_rules! anchors {
    ($low:literal) => {
        &[
            $low - 0.9,
            $low - 0.7,
            $low - 0.5,
            $low - 0.4,
            $low - 0.3,
            $low - 0.2,
            $low - 0.1,
            $low,
            $low + 0.1,
            $low + 0.2,
            $low + 0.3,
            $low + 0.4,
            $low + 0.5,
            $low + 0.6,
            $low + 0.8,
            $low + 1.0,
            // The largest value at the other end.
            -$low - 1.4,
            -$low - 1.2,
            -$low - 1.0,
            -$low - 0.8,
            -$low - 0.6,
            -$low - 0.3,
        ]
    };
}

impl IntegerLevels {
    /// -1, 0, 1.
    pub(super) const TERNARY: IntegerLevels = IntegerLevels {
        low: -1.0,
        high: 1.0,
        anchors: &[1.0, 1.15, 1.3, 1.45, 1.6, 1.75, 1.9, 2.1, 2.4, 2.8],
    };
    /// From -4 to 3.
    pub(super) const THREE_BITS: IntegerLevels =
        IntegerLevels { low: -4.0, high: 3.0, anchors: anchors!(-4.0) };
    /// From -8 to 7.
    pub(super) const FOUR_BITS: IntegerLevels =
        IntegerLevels { low: -8.0, high: 7.0, anchors: anchors!(-8.0) };
    /// From -16 to 15.
    pub(super) const FIVE_BITS: IntegerLevels =
        IntegerLevels { low: -16.0, high: 15.0, anchors: anchors!(-16.0) };
    /// From -32 to 31.
    pub(super) const SIX_BITS: IntegerLevels =
        IntegerLevels { low: -32.0, high: 31.0, anchors: anchors!(-32.0) };
}

impl Levels for IntegerLevels {
    #[inline(always)]
    fn anchors(self) -> &'static [f32] {
        self.anchors
    }

    #[inline(always)]
    fn nearest<S: Simd>(self, s: S, value: S::F) -> S::F {
        s.max(s.min(s.round(value), s.splat(self.high)), s.splat(self.low))
    }

    #[inline(always)]
    fn code<S: Simd>(self, s: S, value: S::F) -> S::F {
        s.sub(self.nearest(s, value), s.splat(self.low))
    }
}

/// The sixteen uneven levels of IQ4_NL and IQ4_XS, stored by number.
#[derive(Clone, Copy)]
pub(super) struct Iq4;

impl Levels for Iq4 {
    #[inline(always)]
    fn anchors(self) -> &'static [f32] {
        &[
            -136.0, -133.0, -130.0, -127.0, -124.0, -121.0, -118.0, -115.0, -111.0, -107.0, -103.0, 122.0,
            118.0, 115.0, 113.0, 110.0, 107.0, 104.0, 100.0, 96.0,
        ]
    }

    #[inline(always)]
    fn nearest<S: Simd>(self, s: S, value: S::F) -> S::F {
        let mut level = s.splat(f32::from(IQ4_LEVELS[0]));
        for i in 1..16 {
            let (low, high) = (f32::from(IQ4_LEVELS[i - 1]), f32::from(IQ4_LEVELS[i]));
            level = s.select_lt(s.splat((low + high) * 0.5), value, s.splat(high), level);
        }
        level
    }

    #[inline(always)]
    fn code<S: Simd>(self, s: S, value: S::F) -> S::F {
        let mut code = s.splat(0.0);
        for i in 1..16 {
            let middle = (f32::from(IQ4_LEVELS[i - 1]) + f32::from(IQ4_LEVELS[i])) * 0.5;
            code = s.select_lt(s.splat(middle), value, s.splat(i as f32), code);
        }
        code
    }
}

/// Twice the values of e2m1; the stored number has the sign in its fourth bit.
#[derive(Clone, Copy)]
pub(super) struct E2m1;

impl Levels for E2m1 {
    #[inline(always)]
    fn anchors(self) -> &'static [f32] {
        &[12.0]
    }

    #[inline(always)]
    fn nearest<S: Simd>(self, s: S, value: S::F) -> S::F {
        let size = s.abs(value);
        let mut level = s.splat(0.0);
        for i in 1..8 {
            let (low, high) = (f32::from(MXFP4_LEVELS[i - 1]), f32::from(MXFP4_LEVELS[i]));
            level = s.select_lt(s.splat((low + high) * 0.5), size, s.splat(high), level);
        }
        let zero = s.splat(0.0);
        s.select_lt(value, zero, s.sub(zero, level), level)
    }

    #[inline(always)]
    fn code<S: Simd>(self, s: S, value: S::F) -> S::F {
        let size = s.abs(value);
        let mut code = s.splat(0.0);
        for i in 1..8 {
            let middle = (f32::from(MXFP4_LEVELS[i - 1]) + f32::from(MXFP4_LEVELS[i])) * 0.5;
            code = s.select_lt(s.splat(middle), size, s.splat(i as f32), code);
        }
        // Zero has no sign.
        let negative = s.select_lt(s.splat(0.0), code, s.add(code, s.splat(8.0)), code);
        s.select_lt(value, s.splat(0.0), negative, code)
    }
}

/// Evenly spaced levels `base + step * q`, `q` from 0 to `top`: an approximation of the levels of a codebook.
#[derive(Clone, Copy)]
pub(super) struct Even {
    base: f32,
    step: f32,
    /// Of the step.
    inverse: f32,
    top: f32,
    anchors: &'static [f32],
}

impl Even {
    /// About 8, 25, 43.
    pub(super) const TWO_BITS: Even =
        Even::new(8.0, 17.5, 2.0, &[30.0, 34.0, 37.0, 40.0, 43.0, 46.0, 50.0, 55.0]);
    /// About 4, 12, and so on to 62.
    pub(super) const THREE_BITS: Even =
        Even::new(4.0, 8.0, 7.0, &[43.0, 47.0, 51.0, 55.0, 59.0, 62.0, 66.0, 71.0, 78.0]);
    /// 1, 3 and so on to 15.
    pub(super) const ODD: Even =
        Even::new(1.0, 2.0, 7.0, &[10.6, 11.3, 12.4, 13.2, 14.0, 14.8, 15.6, 16.7, 18.3]);
    /// -8, 0, 8.
    pub(super) const TERNARY: Even =
        Even::new(-8.0, 8.0, 2.0, &[8.0, 9.5, 11.0, 12.5, 14.0, 16.0, 18.5, 22.0]);

    const fn new(base: f32, step: f32, top: f32, anchors: &'static [f32]) -> Even {
        Even { base, step, inverse: 1.0 / step, top, anchors }
    }
}

impl Levels for Even {
    #[inline(always)]
    fn anchors(self) -> &'static [f32] {
        self.anchors
    }

    #[inline(always)]
    fn nearest<S: Simd>(self, s: S, value: S::F) -> S::F {
        s.add(s.splat(self.base), s.mul(self.code(s, value), s.splat(self.step)))
    }

    #[inline(always)]
    fn code<S: Simd>(self, s: S, value: S::F) -> S::F {
        let q = s.round(s.mul(s.sub(value, s.splat(self.base)), s.splat(self.inverse)));
        s.max(s.min(q, s.splat(self.top)), s.splat(0.0))
    }
}

//! The values that a stored number can stand for, in units of its group's scale.

use crate::blocks::{IQ4_LEVELS, MXFP4_LEVELS};
use crate::simd::Simd;

/// A set of levels, symmetric or not.
pub(super) trait Levels: Copy {
    /// What the value of largest magnitude may become in the search of a scale.
    const ANCHORS: &'static [f32];

    /// The level nearest to each lane.
    fn nearest<S: Simd>(s: S, value: S::F) -> S::F;
    /// The stored number of the level nearest to each lane.
    fn code<S: Simd>(s: S, value: S::F) -> S::F;
}

/// The whole numbers from `LOW` to `HIGH`, stored as their distance from `LOW`.
#[derive(Clone, Copy)]
pub(super) struct Whole<const LOW: i32, const HIGH: i32>;

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
            // The largest at the other end.
            -$low - 1.4,
            -$low - 1.2,
            -$low - 1.0,
            -$low - 0.8,
            -$low - 0.6,
            -$low - 0.3,
        ]
    };
}

impl<const LOW: i32, const HIGH: i32> Levels for Whole<LOW, HIGH> {
    const ANCHORS: &'static [f32] = match LOW {
        -1 => &[1.0, 1.15, 1.3, 1.45, 1.6, 1.75, 1.9, 2.1, 2.4, 2.8],
        -4 => anchors!(-4.0),
        -8 => anchors!(-8.0),
        -16 => anchors!(-16.0),
        _ => anchors!(-32.0),
    };

    #[inline(always)]
    fn nearest<S: Simd>(s: S, value: S::F) -> S::F {
        s.max(s.min(s.round(value), s.splat(HIGH as f32)), s.splat(LOW as f32))
    }

    #[inline(always)]
    fn code<S: Simd>(s: S, value: S::F) -> S::F {
        s.sub(Self::nearest(s, value), s.splat(LOW as f32))
    }
}

/// The sixteen uneven levels of IQ4_NL and IQ4_XS, stored by number.
#[derive(Clone, Copy)]
pub(super) struct Iq4;

impl Levels for Iq4 {
    const ANCHORS: &'static [f32] = &[
        -136.0, -133.0, -130.0, -127.0, -124.0, -121.0, -118.0, -115.0, -111.0, -107.0, -103.0, 122.0, 118.0,
        115.0, 113.0, 110.0, 107.0, 104.0, 100.0, 96.0,
    ];

    #[inline(always)]
    fn nearest<S: Simd>(s: S, value: S::F) -> S::F {
        let mut level = s.splat(f32::from(IQ4_LEVELS[0]));
        for i in 1..16 {
            let (low, high) = (f32::from(IQ4_LEVELS[i - 1]), f32::from(IQ4_LEVELS[i]));
            level = s.select_lt(s.splat((low + high) * 0.5), value, s.splat(high), level);
        }
        level
    }

    #[inline(always)]
    fn code<S: Simd>(s: S, value: S::F) -> S::F {
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
    const ANCHORS: &'static [f32] = &[12.0];

    #[inline(always)]
    fn nearest<S: Simd>(s: S, value: S::F) -> S::F {
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
    fn code<S: Simd>(s: S, value: S::F) -> S::F {
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

/// Evenly spaced levels `BASE + STEP * q`, `q` from 0 to `TOP`, in tenths: what the levels of a code book are about.
#[derive(Clone, Copy)]
pub(super) struct Even<const BASE: i32, const STEP: i32, const TOP: i32>;

impl<const BASE: i32, const STEP: i32, const TOP: i32> Levels for Even<BASE, STEP, TOP> {
    const ANCHORS: &'static [f32] = match (BASE, TOP) {
        // 8, 25, 43.
        (80, _) => &[30.0, 34.0, 37.0, 40.0, 43.0, 46.0, 50.0, 55.0],
        // 4, 12 and so on to 62.
        (40, _) => &[43.0, 47.0, 51.0, 55.0, 59.0, 62.0, 66.0, 71.0, 78.0],
        // 1, 3 and so on to 15.
        (10, _) => &[10.6, 11.3, 12.4, 13.2, 14.0, 14.8, 15.6, 16.7, 18.3],
        // -8, 0, 8.
        _ => &[8.0, 9.5, 11.0, 12.5, 14.0, 16.0, 18.5, 22.0],
    };

    #[inline(always)]
    fn nearest<S: Simd>(s: S, value: S::F) -> S::F {
        let (base, step) = (s.splat(BASE as f32 / 10.0), s.splat(STEP as f32 / 10.0));
        s.add(base, s.mul(Self::code(s, value), step))
    }

    #[inline(always)]
    fn code<S: Simd>(s: S, value: S::F) -> S::F {
        let (base, steps) = (s.splat(BASE as f32 / 10.0), s.splat(10.0 / STEP as f32));
        let q = s.round(s.mul(s.sub(value, base), steps));
        s.max(s.min(q, s.splat(TOP as f32)), s.splat(0.0))
    }
}

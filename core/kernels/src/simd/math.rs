//! Transcendental functions over sixteen lanes.

use super::Simd;

/// Below this `exp` returns zero (the true value is under 1.8e-38), above the other end infinity.
const EXP_LOW: f32 = -86.9;
/// Just above ln(2^128).
const EXP_HIGH: f32 = 88.75;

/// Evaluates a polynomial, highest coefficient first.
#[inline(always)]
fn polynomial<S: Simd>(s: S, x: S::F, coefficients: &[f32]) -> S::F {
    let mut value = s.splat(coefficients[0]);
    for &coefficient in &coefficients[1..] {
        value = s.fma(value, x, s.splat(coefficient));
    }
    value
}

/// e to the power of `x`, within 2 units in the last place. Range reduction by ln 2 in two parts and the
/// polynomial of Cephes' `expf` (S. Moshier).
#[inline(always)]
pub(crate) fn exp<S: Simd>(s: S, x: S::F) -> S::F {
    // The argument comes second: NaN stays NaN.
    let clamped = s.min(s.splat(EXP_HIGH), s.max(s.splat(EXP_LOW), x));
    let n = s.round(s.mul(clamped, s.splat(std::f32::consts::LOG2_E)));
    let r = s.fnma(n, s.splat(0.693_359_4), clamped);
    let r = s.fnma(n, s.splat(-2.121_944_4e-4), r);
    let tail = polynomial(
        s,
        r,
        &[1.987_569_1e-4, 1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 5e-1],
    );
    let value = s.fma(s.mul(tail, r), r, s.add(r, s.splat(1.0)));
    let value = s.scale_by_pow2(value, n);
    s.select_lt(x, s.splat(EXP_LOW), s.splat(0.0), value)
}

/// The hyperbolic tangent, relative error under 4e-7: Cephes' `tanhf` polynomial near zero, else through `exp`.
#[inline(always)]
pub(crate) fn tanh<S: Simd>(s: S, x: S::F) -> S::F {
    let square = s.mul(x, x);
    let near = polynomial(
        s,
        square,
        &[-5.704_988_7e-3, 2.063_909e-2, -5.373_971_5e-2, 1.333_144_2e-1, -3.333_328e-1],
    );
    let near = s.fma(s.mul(near, square), x, x);
    let size = s.abs(x);
    let e = exp(s, s.add(size, size));
    let far = s.sub(s.splat(1.0), s.div(s.splat(2.0), s.add(e, s.splat(1.0))));
    let far = s.select_lt(x, s.splat(0.0), s.sub(s.splat(0.0), far), far);
    s.select_lt(size, s.splat(0.625), near, far)
}

/// The complementary error function, relative error about 2e-7 near zero and under 3e-6 in the tails.
/// Chebyshev fit of Numerical Recipes' `erfcc`.
#[inline(always)]
pub(crate) fn erfc<S: Simd>(s: S, x: S::F) -> S::F {
    let size = s.abs(x);
    let t = s.div(s.splat(1.0), s.fma(size, s.splat(0.5), s.splat(1.0)));
    let fit = polynomial(
        s,
        t,
        &[
            0.170_872_77,
            -0.822_152_23,
            1.488_515_9,
            -1.135_204,
            0.278_868_07,
            -0.186_288_06,
            0.096_784_18,
            0.374_091_96,
            1.000_023_7,
            -1.265_512_2,
        ],
    );
    let value = s.mul(t, exp(s, s.fnma(size, size, fit)));
    s.select_lt(x, s.splat(0.0), s.sub(s.splat(2.0), value), value)
}

/// `ln(1 + x)` for `x` in 0..=1, relative error under 3e-7: `2 atanh(x / (2 + x))`, whose series in the square of that
/// quotient (at most 1/9) is cut after its ninth term.
#[inline(always)]
pub(crate) fn ln_1p_of_fraction<S: Simd>(s: S, x: S::F) -> S::F {
    let quotient = s.div(x, s.add(x, s.splat(2.0)));
    let square = s.mul(quotient, quotient);
    let series = polynomial(
        s,
        square,
        &[1.0 / 17.0, 1.0 / 15.0, 1.0 / 13.0, 1.0 / 11.0, 1.0 / 9.0, 1.0 / 7.0, 1.0 / 5.0, 1.0 / 3.0, 1.0],
    );
    s.mul(s.add(quotient, quotient), series)
}

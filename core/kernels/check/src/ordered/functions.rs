//! The exponential and the functions built on it, step by step; polynomials by Horner's rule, every step fused.

use menagerie_kernels::{Activation, Gating, Xielu};

/// The highest coefficient first.
fn polynomial(x: f32, coefficients: &[f32]) -> f32 {
    coefficients[1..].iter().fold(coefficients[0], |value, coefficient| value.mul_add(x, *coefficient))
}

/// The larger; `b` if either is NaN, and if they are equal.
fn max(a: f32, b: f32) -> f32 {
    if a > b { a } else { b }
}

/// The smaller; `b` if either is NaN, and if they are equal.
fn min(a: f32, b: f32) -> f32 {
    if a < b { a } else { b }
}

/// e to the power of `x`: `n` is the nearest integer to `x / ln 2`, ties to even; the remainder of `x` after
/// subtracting `n ln 2` in two steps is the argument of Cephes' polynomial. Below -86.9 zero, from 88.75 on infinite.
pub fn exp(x: f32) -> f32 {
    let clamped = min(88.75, max(-86.9, x));
    let n = (clamped * std::f32::consts::LOG2_E).round_ties_even();
    let r = (-n).mul_add(-2.121_944_4e-4, (-n).mul_add(0.693_359_4, clamped));
    let tail =
        polynomial(r, &[1.987_569_1e-4, 1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 5e-1]);
    let value = (tail * r).mul_add(r, r + 1.0);
    if x < -86.9 { 0.0 } else { (value + value) * 2f32.powi(n as i32 - 1) }
}

/// The hyperbolic tangent: a polynomial below 0.625, else `1 - 2 / (exp(2 |x|) + 1)` with the sign of `x`.
pub fn tanh(x: f32) -> f32 {
    let (square, size) = (x * x, x.abs());
    if size < 0.625 {
        let near = polynomial(
            square,
            &[-5.704_988_7e-3, 2.063_909e-2, -5.373_971_5e-2, 1.333_144_2e-1, -3.333_328e-1],
        );
        return (near * square).mul_add(x, x);
    }
    let far = 1.0 - 2.0 / (exp(size + size) + 1.0);
    if x < 0.0 { 0.0 - far } else { far }
}

/// The complementary error function: `t exp(p(t) - x^2)` with `t = 1 / (1 + |x| / 2)`.
pub fn erfc(x: f32) -> f32 {
    let size = x.abs();
    let t = 1.0 / size.mul_add(0.5, 1.0);
    let fit = polynomial(
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
    let value = t * exp((-size).mul_add(size, fit));
    if x < 0.0 { 2.0 - value } else { value }
}

/// `ln(1 + x)` for `x` in 0..=1: `2 atanh(x / (2 + x))`.
pub fn ln_1p_of_fraction(x: f32) -> f32 {
    let quotient = x / (x + 2.0);
    let terms = [17.0, 15.0, 13.0, 11.0, 9.0, 7.0, 5.0, 3.0, 1.0].map(|n: f32| 1.0 / n);
    (quotient + quotient) * polynomial(quotient * quotient, &terms)
}

/// `1 + exp(-x)`.
fn one_plus_exp_minus(x: f32) -> f32 {
    exp(0.0 - x) + 1.0
}

/// `1 / (1 + exp(-x))`.
pub fn sigmoid(x: f32) -> f32 {
    1.0 / one_plus_exp_minus(x)
}

/// `cap * tanh(x / cap)`.
pub fn softcap(cap: f32, x: f32) -> f32 {
    cap * tanh(x / cap)
}

/// An activation of one value.
pub fn activate(a: Activation, x: f32) -> f32 {
    let positive = max(0.0, x);
    match a {
        Activation::Silu => x / one_plus_exp_minus(x),
        Activation::GeluTanh => {
            let twice = x * (x * x).mul_add(0.071_354_814, 1.595_769);
            x / one_plus_exp_minus(twice)
        }
        Activation::GeluErf => (x * 0.5) * erfc(x * -std::f32::consts::FRAC_1_SQRT_2),
        Activation::Relu => positive,
        Activation::ReluSquared => positive * positive,
        Activation::Sigmoid => sigmoid(x),
        Activation::Softplus => positive + ln_1p_of_fraction(exp(0.0 - x.abs())),
        Activation::Xielu(numbers) => xielu(numbers, x),
    }
}

fn xielu(numbers: Xielu, x: f32) -> f32 {
    let half = tanh(min(numbers.eps, x) * 0.5);
    let minus_one = (half + half) / (1.0 - half);
    let below = (minus_one - x) * numbers.alpha_n;
    x.mul_add(numbers.beta, if x > 0.0 { x * x * numbers.alpha_p } else { below })
}

/// A gate and an up projection as one.
pub fn gated(gating: Gating, gate: f32, up: f32) -> f32 {
    let silu = |x: f32| activate(Activation::Silu, x);
    let within = |limit: f32| min(limit, max(-limit, up));
    match gating {
        Gating::Plain(activation) => activate(activation, gate) * up,
        Gating::LimitedBefore { limit } => silu(min(limit, gate)) * within(limit),
        Gating::LimitedAfter { limit } => min(limit, silu(gate)) * within(limit),
        Gating::SwigluOai { alpha, limit } => {
            let gate = min(limit, gate);
            gate / one_plus_exp_minus(gate * alpha) * (within(limit) + 1.0)
        }
    }
}

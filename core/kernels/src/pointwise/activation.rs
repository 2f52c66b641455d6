//! Activations, alone and as the gate of a feed-forward.

use crate::cpu::Cpu;
use crate::error::{KernelError, check_len};
use crate::pointwise::{Pointwise, combine, map};
use crate::simd::{Simd, erfc, exp, ln_1p_of_fraction, tanh};
use menagerie_formulas::{Activation, Gating, Xielu};

/// Runs `$body` with `$kernel` bound to the kernel of an activation.
macro_rules! with_kernel {
    ($activation:expr, $kernel:ident => $body:expr) => {
        match $activation {
            Activation::Silu => with_kernel!(@bind Silu, $kernel => $body),
            Activation::GeluTanh => with_kernel!(@bind GeluTanh, $kernel => $body),
            Activation::GeluErf => with_kernel!(@bind GeluErf, $kernel => $body),
            Activation::Relu => with_kernel!(@bind Relu, $kernel => $body),
            Activation::ReluSquared => with_kernel!(@bind ReluSquared, $kernel => $body),
            Activation::Sigmoid => with_kernel!(@bind Sigmoid, $kernel => $body),
            Activation::Softplus => with_kernel!(@bind Softplus, $kernel => $body),
            Activation::Xielu(numbers) => with_kernel!(@bind numbers, $kernel => $body),
        }
    };
    (@bind $value:expr, $kernel:ident => $body:expr) => {{
        let $kernel = $value;
        $body
    }};
}

/// `x = act(x)`, element by element.
///
/// # Errors
/// [`KernelError::JobPanicked`].
pub fn activate(cpu: &Cpu, activation: Activation, x: &mut [f32]) -> Result<(), KernelError> {
    with_kernel!(activation, kernel => map(cpu, kernel, x))
}

/// `out` from `gate` and `up`, element by element.
///
/// # Errors
/// [`KernelError::Shape`]: different lengths.
pub fn gated(
    cpu: &Cpu,
    gating: Gating,
    gate: &[f32],
    up: &[f32],
    out: &mut [f32],
) -> Result<(), KernelError> {
    check_len("gated: up", up.len(), gate.len())?;
    check_len("gated: out", out.len(), gate.len())?;
    match gating {
        Gating::Plain(activation) => {
            with_kernel!(activation, kernel => combine(cpu, GateWith(kernel), gate, up, out))
        }
        Gating::LimitedBefore { limit } => combine(cpu, LimitedBefore(limit), gate, up, out),
        Gating::LimitedAfter { limit } => combine(cpu, LimitedAfter(limit), gate, up, out),
        Gating::SwigluOai { alpha, limit } => combine(cpu, LimitedSwiglu { alpha, limit }, gate, up, out),
    }
}

/// `op(a) * b`.
#[derive(Clone, Copy)]
struct GateWith<P>(P);

impl<P: Pointwise> Pointwise for GateWith<P> {
    #[inline(always)]
    fn apply<S: Simd>(self, s: S, a: S::F, b: S::F) -> S::F {
        s.mul(self.0.apply(s, a, a), b)
    }
}

/// Clamps to `-limit..=limit`; NaN stays NaN.
#[inline(always)]
fn within<S: Simd>(s: S, x: S::F, limit: f32) -> S::F {
    s.min(s.splat(limit), s.max(s.splat(-limit), x))
}

#[derive(Clone, Copy)]
struct LimitedBefore(f32);

impl Pointwise for LimitedBefore {
    #[inline(always)]
    fn apply<S: Simd>(self, s: S, a: S::F, b: S::F) -> S::F {
        let gate = s.min(s.splat(self.0), a);
        s.mul(Silu.apply(s, gate, gate), within(s, b, self.0))
    }
}

#[derive(Clone, Copy)]
struct LimitedAfter(f32);

impl Pointwise for LimitedAfter {
    #[inline(always)]
    fn apply<S: Simd>(self, s: S, a: S::F, b: S::F) -> S::F {
        s.mul(s.min(s.splat(self.0), Silu.apply(s, a, a)), within(s, b, self.0))
    }
}

#[derive(Clone, Copy)]
struct LimitedSwiglu {
    alpha: f32,
    limit: f32,
}

impl Pointwise for LimitedSwiglu {
    #[inline(always)]
    fn apply<S: Simd>(self, s: S, a: S::F, b: S::F) -> S::F {
        let gate = s.min(s.splat(self.limit), a);
        let gate = s.div(gate, one_plus_exp_minus(s, s.mul(gate, s.splat(self.alpha))));
        s.mul(gate, s.add(within(s, b, self.limit), s.splat(1.0)))
    }
}

impl Pointwise for Xielu {
    #[inline(always)]
    fn apply<S: Simd>(self, s: S, a: S::F, _: S::F) -> S::F {
        let above = s.mul(s.mul(a, a), s.splat(self.alpha_p));
        // exp(u) - 1 = 2 t / (1 - t), with t = tanh(u / 2): near zero nothing cancels.
        let half = tanh(s, s.mul(s.min(s.splat(self.eps), a), s.splat(0.5)));
        let minus_one = s.div(s.add(half, half), s.sub(s.splat(1.0), half));
        let below = s.mul(s.sub(minus_one, a), s.splat(self.alpha_n));
        s.fma(a, s.splat(self.beta), s.select_lt(s.splat(0.0), a, above, below))
    }
}

/// `1 / (1 + exp(-x))`.
#[derive(Clone, Copy)]
pub(crate) struct Sigmoid;

impl Pointwise for Sigmoid {
    #[inline(always)]
    fn apply<S: Simd>(self, s: S, a: S::F, _: S::F) -> S::F {
        s.div(s.splat(1.0), one_plus_exp_minus(s, a))
    }
}

#[derive(Clone, Copy)]
struct Silu;

impl Pointwise for Silu {
    #[inline(always)]
    fn apply<S: Simd>(self, s: S, a: S::F, _: S::F) -> S::F {
        s.div(a, one_plus_exp_minus(s, a))
    }
}

#[derive(Clone, Copy)]
struct GeluTanh;

impl Pointwise for GeluTanh {
    #[inline(always)]
    fn apply<S: Simd>(self, s: S, a: S::F, _: S::F) -> S::F {
        // 0.5 (1 + tanh(u)) = 1 / (1 + exp(-2 u)), with u = sqrt(2 / pi) (x + 0.044715 x^3).
        let square = s.mul(a, a);
        let twice = s.mul(a, s.fma(square, s.splat(0.071_354_814), s.splat(1.595_769)));
        s.div(a, one_plus_exp_minus(s, twice))
    }
}

#[derive(Clone, Copy)]
struct GeluErf;

impl Pointwise for GeluErf {
    #[inline(always)]
    fn apply<S: Simd>(self, s: S, a: S::F, _: S::F) -> S::F {
        let tail = erfc(s, s.mul(a, s.splat(-std::f32::consts::FRAC_1_SQRT_2)));
        s.mul(s.mul(a, s.splat(0.5)), tail)
    }
}

#[derive(Clone, Copy)]
struct Relu;

impl Pointwise for Relu {
    #[inline(always)]
    fn apply<S: Simd>(self, s: S, a: S::F, _: S::F) -> S::F {
        s.max(s.splat(0.0), a)
    }
}

#[derive(Clone, Copy)]
struct ReluSquared;

impl Pointwise for ReluSquared {
    #[inline(always)]
    fn apply<S: Simd>(self, s: S, a: S::F, _: S::F) -> S::F {
        let positive = s.max(s.splat(0.0), a);
        s.mul(positive, positive)
    }
}

#[derive(Clone, Copy)]
struct Softplus;

impl Pointwise for Softplus {
    #[inline(always)]
    fn apply<S: Simd>(self, s: S, a: S::F, _: S::F) -> S::F {
        // Without overflow: max(x, 0) + ln(1 + exp(-|x|)).
        let small = exp(s, s.sub(s.splat(0.0), s.abs(a)));
        s.add(s.max(s.splat(0.0), a), ln_1p_of_fraction(s, small))
    }
}

/// `1 + exp(-x)`.
#[inline(always)]
fn one_plus_exp_minus<S: Simd>(s: S, x: S::F) -> S::F {
    s.add(exp(s, s.sub(s.splat(0.0), x)), s.splat(1.0))
}

//! Activations, alone and as the gate of a feed-forward.

use crate::cpu::Cpu;
use crate::error::{KernelError, check_len};
use crate::pointwise::{Pointwise, combine, map};
use crate::simd::{Simd, erfc, exp};

/// An activation function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Activation {
    /// `x * sigmoid(x)` (Elfwing et al. 2017), also called swish.
    Silu,
    /// GELU in the tanh approximation (Hendrycks and Gimpel 2016); HF `gelu_new`, `gelu_pytorch_tanh`.
    GeluTanh,
    /// GELU with the error function; HF `gelu`.
    GeluErf,
    /// `max(x, 0)`.
    Relu,
    /// `max(x, 0)^2` (So et al. 2021); HF `relu2`.
    ReluSquared,
}

/// `x = act(x)`, element by element.
///
/// # Errors
/// [`KernelError::JobPanicked`].
pub fn activate(cpu: &Cpu, a: Activation, x: &mut [f32]) -> Result<(), KernelError> {
    match a {
        Activation::Silu => map(cpu, Silu, x),
        Activation::GeluTanh => map(cpu, GeluTanh, x),
        Activation::GeluErf => map(cpu, GeluErf, x),
        Activation::Relu => map(cpu, Relu, x),
        Activation::ReluSquared => map(cpu, ReluSquared, x),
    }
}

/// `out = act(gate) * up`, element by element.
///
/// # Errors
/// [`KernelError::Shape`]: different lengths.
pub fn gated(cpu: &Cpu, a: Activation, gate: &[f32], up: &[f32], out: &mut [f32]) -> Result<(), KernelError> {
    check_len("gated: up", up.len(), gate.len())?;
    check_len("gated: out", out.len(), gate.len())?;
    match a {
        Activation::Silu => combine(cpu, Gate(Silu), gate, up, out),
        Activation::GeluTanh => combine(cpu, Gate(GeluTanh), gate, up, out),
        Activation::GeluErf => combine(cpu, Gate(GeluErf), gate, up, out),
        Activation::Relu => combine(cpu, Gate(Relu), gate, up, out),
        Activation::ReluSquared => combine(cpu, Gate(ReluSquared), gate, up, out),
    }
}

/// `op(a) * b`.
#[derive(Clone, Copy)]
struct Gate<P>(P);

impl<P: Pointwise> Pointwise for Gate<P> {
    #[inline(always)]
    fn apply<S: Simd>(self, s: S, a: S::F, b: S::F) -> S::F {
        s.mul(self.0.apply(s, a, a), b)
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

/// `1 + exp(-x)`.
#[inline(always)]
fn one_plus_exp_minus<S: Simd>(s: S, x: S::F) -> S::F {
    s.add(exp(s, s.sub(s.splat(0.0), x)), s.splat(1.0))
}

//! [`Activation`], [`Gating`] and [`RopePairs`]: names of formulas that every backend computes.

/// A pointwise activation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Activation {
    /// `x * sigmoid(x)` (Elfwing et al., 2017).
    Silu,
    /// GELU in the tanh approximation (Hendrycks and Gimpel, 2016); HF `gelu_new`, `gelu_pytorch_tanh`.
    GeluTanh,
    /// GELU with the error function; HF `gelu`.
    GeluErf,
    /// `max(x, 0)`.
    Relu,
    /// `max(x, 0)^2` (So et al., 2021); HF `relu2`.
    ReluSquared,
    /// `1 / (1 + exp(-x))`.
    Sigmoid,
    /// `ln(1 + exp(x))` (Dugas et al., 2001).
    Softplus,
    /// xIELU (Huang and Schlag, 2024).
    Xielu(Xielu),
}

/// Numbers of xIELU: `alpha_p * x^2 + beta * x` above 0, `alpha_n * (exp(min(x, eps)) - 1 - x) + beta * x` up to it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Xielu {
    /// Multiplies the square above 0.
    pub alpha_p: f32,
    /// Multiplies the exponential up to 0.
    pub alpha_n: f32,
    /// Linear part.
    pub beta: f32,
    /// Largest argument of the exponential.
    pub eps: f32,
}

/// How a gate and an up projection become one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Gating {
    /// `activation(gate) * up` (Shazeer, 2020).
    Plain(Activation),
    /// `silu(min(gate, limit)) * clamp(up, -limit, limit)`.
    LimitedBefore {
        /// Above 0.
        limit: f32,
    },
    /// `min(silu(gate), limit) * clamp(up, -limit, limit)`.
    LimitedAfter {
        /// Above 0.
        limit: f32,
    },
    /// With `g = min(gate, limit)`: `g * sigmoid(alpha * g) * (clamp(up, -limit, limit) + 1)` (gpt-oss).
    SwigluOai {
        /// Multiplies inside the sigmoid.
        alpha: f32,
        /// Above 0.
        limit: f32,
    },
}

/// Which elements of a head form a rotated pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RopePairs {
    /// `(2j, 2j + 1)`.
    Adjacent,
    /// `(j, j + dims / 2)`.
    Halves,
}

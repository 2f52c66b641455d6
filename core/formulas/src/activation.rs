//! [`Activation`] and [`Gating`]: formulas between the linears of a feed-forward.

names! {
    /// A pointwise activation.
    pub enum Activation {
        /// `x * sigmoid(x)` (Elfwing et al., 2017).
        Silu = "silu",
        /// GELU, tanh form (Hendrycks and Gimpel, 2016; `gelu_new`, `gelu_pytorch_tanh`).
        GeluTanh = "gelu-tanh",
        /// GELU, erf form (`gelu`).
        GeluErf = "gelu-erf",
        /// `max(x, 0)`.
        Relu = "relu",
        /// `max(x, 0)^2` (So et al., 2021; `relu2`).
        ReluSquared = "relu-squared",
        /// `1 / (1 + exp(-x))`.
        Sigmoid = "sigmoid",
        /// `ln(1 + exp(x))` (Dugas et al., 2001).
        Softplus = "softplus",
        /// xIELU (Huang and Schlag, 2024): `a * x^2 + beta * x` above 0, `n * (exp(min(x, eps)) - 1 - x) + beta * x` up
        /// to it.
        Xielu(Xielu = Xielu { alpha_p: 0.7, alpha_n: 1.1, beta: 0.5, eps: -1e-6 }) = "xielu",
    }
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

/// The way a gate and an up projection are combined.
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

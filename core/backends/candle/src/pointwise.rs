//! Element by element.

use crate::tensors::TensorResult;
use candle_core::Tensor;
use candle_nn::ops;
use menagerie_model::{Activation, Gating, Xielu};

/// The activation of every element.
pub(crate) fn activate(x: &Tensor, activation: Activation) -> TensorResult {
    match activation {
        Activation::Silu => x.silu(),
        Activation::GeluTanh => x.gelu(),
        Activation::GeluErf => x.gelu_erf(),
        Activation::Relu => relu(x),
        Activation::ReluSquared => relu(x)?.sqr(),
        Activation::Sigmoid => ops::sigmoid(x),
        Activation::Softplus => softplus(x),
        Activation::Xielu(numbers) => xielu(x, numbers),
    }
}

/// `max(x, 0)`.
fn relu(x: &Tensor) -> TensorResult {
    unless_broken(x.relu()?, x)
}

/// `max(x, 0) + ln(1 + exp(-|x|))`: candle's own overflows.
fn softplus(x: &Tensor) -> TensorResult {
    let more = x.abs()?.neg()?.exp()?.affine(1.0, 1.0)?.log()?;
    relu(x)? + more
}

fn xielu(x: &Tensor, numbers: Xielu) -> TensorResult {
    let [alpha_p, alpha_n, beta, eps] =
        [numbers.alpha_p, numbers.alpha_n, numbers.beta, numbers.eps].map(f64::from);
    let above = x.sqr()?.affine(alpha_p, 0.0)?;
    let below = (x.minimum(eps)?.exp()?.affine(1.0, -1.0)? - x)?.affine(alpha_n, 0.0)?;
    x.gt(0f32)?.where_cond(&above, &below)? + x.affine(beta, 0.0)?
}

/// Combines a gate and an up projection.
pub(crate) fn gated(gate: &Tensor, up: &Tensor, gating: Gating) -> TensorResult {
    match gating {
        Gating::Plain(activation) => activate(gate, activation)? * up,
        Gating::LimitedBefore { limit } => at_most(gate, limit)?.silu()? * clamp(up, limit)?,
        Gating::LimitedAfter { limit } => at_most(&gate.silu()?, limit)? * clamp(up, limit)?,
        Gating::SwigluOai { alpha, limit } => {
            let gate = at_most(gate, limit)?;
            let gate = (&gate * ops::sigmoid(&gate.affine(f64::from(alpha), 0.0)?)?)?;
            gate * clamp(up, limit)?.affine(1.0, 1.0)?
        }
    }
}

/// `min(x, limit)`.
fn at_most(x: &Tensor, limit: f32) -> TensorResult {
    unless_broken(x.minimum(limit)?, x)
}

/// From `-limit` to `limit`.
pub(crate) fn clamp(x: &Tensor, limit: f32) -> TensorResult {
    unless_broken(x.clamp(-limit, limit)?, x)
}

/// `y`, but NaN where `x` is NaN: candle's `minimum` and `maximum` ignore NaN.
fn unless_broken(y: Tensor, x: &Tensor) -> TensorResult {
    y + x.affine(0.0, 0.0)?
}

/// `cap * tanh(x / cap)`.
pub(crate) fn softcap(x: &Tensor, cap: f32) -> TensorResult {
    let cap = f64::from(cap);
    x.affine(1.0 / cap, 0.0)?.tanh()?.affine(cap, 0.0)
}

//! Element by element.

use crate::tensors::Made;
use candle_core::Tensor;
use menagerie_model::Activation;

/// The activation of every element.
pub(crate) fn activate(x: &Tensor, activation: Activation) -> Made {
    match activation {
        Activation::Silu => x.silu(),
        Activation::GeluTanh => x.gelu(),
        Activation::GeluErf => x.gelu_erf(),
        Activation::Relu => relu(x),
        Activation::ReluSquared => relu(x)?.sqr(),
    }
}

/// `max(x, 0)`.
fn relu(x: &Tensor) -> Made {
    unless_broken(x.relu()?, x)
}

/// From `-limit` to `limit`.
pub(crate) fn clamp(x: &Tensor, limit: f32) -> Made {
    unless_broken(x.clamp(-limit, limit)?, x)
}

/// What comes of `x`, but not a number where `x` is none: the largest and the smallest of two pass over that.
fn unless_broken(y: Tensor, x: &Tensor) -> Made {
    y + x.affine(0.0, 0.0)?
}

/// `cap * tanh(x / cap)`.
pub(crate) fn softcap(x: &Tensor, cap: f32) -> Made {
    let cap = f64::from(cap);
    x.affine(1.0 / cap, 0.0)?.tanh()?.affine(cap, 0.0)
}

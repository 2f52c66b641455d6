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
        Activation::Relu => x.relu(),
        Activation::ReluSquared => x.relu()?.sqr(),
    }
}

/// `cap * tanh(x / cap)`.
pub(crate) fn softcap(x: &Tensor, cap: f32) -> Made {
    let cap = f64::from(cap);
    x.affine(1.0 / cap, 0.0)?.tanh()?.affine(cap, 0.0)
}

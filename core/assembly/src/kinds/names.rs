//! The model's names for what the language names.

use menagerie_model as model;
use menagerie_spec::config::Activation;

/// The activation.
pub(crate) fn activation(activation: Activation) -> model::Activation {
    match activation {
        Activation::Silu => model::Activation::Silu,
        Activation::GeluTanh => model::Activation::GeluTanh,
        Activation::GeluErf => model::Activation::GeluErf,
        Activation::Relu => model::Activation::Relu,
        Activation::ReluSquared => model::Activation::ReluSquared,
    }
}

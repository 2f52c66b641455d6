//! The model's names for what the language names.

use menagerie_model as model;
use menagerie_model::{ActivationForm, GateForm, Gating};
use menagerie_registry::Parts;
use menagerie_spec::config::{Activation, LimitConfig, LimitPlace, SwigluOai, Xielu};

/// An activation that stands alone.
pub(crate) fn activation(activation: &Activation, parts: &mut dyn Parts) -> Option<ActivationForm> {
    let formula = match *activation {
        Activation::Component(ref component) => {
            return parts.activation(component).map(ActivationForm::Component);
        }
        Activation::Silu => model::Activation::Silu,
        Activation::GeluTanh => model::Activation::GeluTanh,
        Activation::GeluErf => model::Activation::GeluErf,
        Activation::Relu => model::Activation::Relu,
        Activation::ReluSquared => model::Activation::ReluSquared,
        Activation::Xielu(Xielu { alpha_p, alpha_n, beta, eps }) => {
            model::Activation::Xielu(model::Xielu { alpha_p, alpha_n, beta, eps })
        }
        Activation::SwigluOai(_) => {
            parts.fault("activation `swiglu-oai` is of a gate and an up projection; here is no gate");
            return None;
        }
    };
    Some(formula.into())
}

/// How a gate and an up projection become one.
pub(crate) fn gating(
    own: &Activation,
    limit: Option<LimitConfig>,
    parts: &mut dyn Parts,
) -> Option<GateForm> {
    match (own, limit) {
        (&Activation::SwigluOai(SwigluOai { alpha, limit }), None) => {
            Some(Gating::SwigluOai { alpha, limit }.into())
        }
        (own, None) => activation(own, parts).map(GateForm::plain),
        (Activation::Silu, Some(LimitConfig { value: limit, at })) => {
            let gating = match at {
                LimitPlace::BeforeActivation => Gating::LimitedBefore { limit },
                LimitPlace::AfterActivation => Gating::LimitedAfter { limit },
            };
            Some(gating.into())
        }
        (_, Some(_)) => {
            parts.fault("a limit on gate and up projection goes with the activation `silu` alone");
            None
        }
    }
}

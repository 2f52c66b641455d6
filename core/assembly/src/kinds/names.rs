//! Activations and gates of feed-forwards, from their configs.

use menagerie_model::{Activation, ActivationForm, GateForm, Gating};
use menagerie_registry::{BuildResult, ComponentParts};
use menagerie_spec::config::{ActivationConfig, LimitConfig, LimitPlace, SwigluOai};

/// An activation without a gate.
pub(crate) fn activation(
    config: &ActivationConfig,
    parts: &mut dyn ComponentParts,
) -> BuildResult<ActivationForm> {
    match *config {
        ActivationConfig::Formula(formula) => Ok(formula.into()),
        ActivationConfig::Component(ref component) => {
            parts.activation(component).map(ActivationForm::Component)
        }
        ActivationConfig::SwigluOai(_) => {
            Err(parts
                .fault("activation `swiglu-oai` needs a gate projection, but this feed-forward has none"))
        }
    }
}

/// The combination of gate and up projection.
pub(crate) fn gating(
    own: &ActivationConfig,
    limit: Option<LimitConfig>,
    parts: &mut dyn ComponentParts,
) -> BuildResult<GateForm> {
    match (own, limit) {
        (&ActivationConfig::SwigluOai(SwigluOai { alpha, limit }), None) => {
            Ok(Gating::SwigluOai { alpha, limit }.into())
        }
        (own, None) => activation(own, parts).map(GateForm::plain),
        (ActivationConfig::Formula(Activation::Silu), Some(LimitConfig { value: limit, at })) => {
            let gating = match at {
                LimitPlace::BeforeActivation => Gating::LimitedBefore { limit },
                LimitPlace::AfterActivation => Gating::LimitedAfter { limit },
            };
            Ok(gating.into())
        }
        (_, Some(_)) => {
            Err(parts.fault("a limit on gate and up projection is only supported with the activation `silu`"))
        }
    }
}

//! Shared by recurrent mixers: the norm at their gate, and the bias of their convolution.

use crate::config::BiasRule;
use crate::kind::{Component, Nested, NormHere, RecordedFault, ResolveContext};
use crate::{names, options};

/// Norm on a recurrent mixer's output (role `ssm_norm`), and where its gate stands.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct GatedNormConfig {
    /// Where the gate multiplies.
    pub gate: GatePlace,
    /// The norm.
    pub norm: Component,
}

options! {
    /// Norm on a recurrent mixer's output (role `ssm_norm`), and where its gate stands.
    pub struct GatedNormOptions {
        /// Where the gate multiplies.
        gate: GatePlace = Required => guarded,
        /// The norm.
        norm: NormHere = Fields,
    }
}

names! {
    /// Where the gate of a recurrent mixer multiplies.
    pub enum GatePlace {
        /// `norm(x * silu(gate))`.
        BeforeNorm = "before-norm",
        /// `norm(x) * silu(gate)`.
        AfterNorm = "after-norm",
    }
}

/// The norm, if there is one.
pub(super) fn resolve_gated_norm(
    options: Option<Nested<GatedNormOptions>>,
    at: &mut ResolveContext<'_>,
) -> Result<Option<GatedNormConfig>, RecordedFault> {
    let Some(Nested { options: GatedNormOptions { gate, norm }, .. }) = options else { return Ok(None) };
    let norm = at.norm(&norm, &["ssm_norm"])?;
    Ok(Some(GatedNormConfig { gate, norm }))
}

/// Whether the convolution has a bias in this layer, after `if-present` is decided.
pub(super) fn resolve_conv_bias(rule: BiasRule, at: &ResolveContext<'_>) -> BiasRule {
    match rule {
        BiasRule::IfPresent if at.has("ssm_conv1d.bias") => BiasRule::Required,
        BiasRule::IfPresent => BiasRule::None,
        decided => decided,
    }
}

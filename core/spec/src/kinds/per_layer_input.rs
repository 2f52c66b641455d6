//! The feed-forward `per-layer-input`.

use super::dense::ActivationConfig;
use crate::kind::{Definition, Family, Positive, RecordedFault, ResolveContext, RoleDef, Sizes};
use crate::options;

/// What a layer makes of the row it gets beside the stream.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct PerLayerInputConfig {
    /// Elements of the row.
    pub width: usize,
    /// Activation of the gate.
    pub activation: ActivationConfig,
}

options! {
    /// Options of `per-layer-input`.
    pub struct PerLayerInputOptions {
        /// Elements of the row.
        width: Positive<usize> = Key("embedding_length_per_layer_input"),
        /// Activation of the gate.
        activation: ActivationConfig = Required => guarded,
    }
}

impl Definition for PerLayerInputConfig {
    type Options = PerLayerInputOptions;
    const FAMILY: Family = Family::FeedForward;
    const NAME: &'static str = "per-layer-input";
    const DOC: &'static str = "`proj(activation(inp_gate(x)) * row)` with the row that `[embedding.per_layer]` makes for the \
                               layer (Gemma 3n, 2025).";
    const ROLES: &'static [RoleDef] = &[
        RoleDef::linear("inp_gate", &["D", "per_layer"], "The gate on the layer's row."),
        RoleDef::linear("proj", &["per_layer", "D"], "The way back to the stream."),
    ];

    fn resolve(options: PerLayerInputOptions, _: &mut ResolveContext<'_>) -> Result<Self, RecordedFault> {
        let PerLayerInputOptions { width: Positive(width), activation } = options;
        Ok(Self { width, activation })
    }

    fn sizes(&self, into: &mut Sizes) {
        into.set("per_layer", self.width);
    }
}

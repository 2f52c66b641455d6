//! The feed-forward `per-layer-input`.

use super::names::activation;
use menagerie_model::components::PerLayerInput;
use menagerie_model::{FeedForward, GateForm};
use menagerie_registry::{BuildResult, ComponentParts, component};
use menagerie_spec::config::PerLayerInputConfig;

component!(feed_forward PerLayerInputConfig, per_layer_input);

fn per_layer_input(
    config: &PerLayerInputConfig,
    parts: &mut dyn ComponentParts,
) -> BuildResult<Box<dyn FeedForward>> {
    // The dimensions of both tensors state the width.
    let PerLayerInputConfig { width: _, activation: act } = config;
    let (gate, projection) = (parts.linear("inp_gate"), parts.linear("proj"));
    let activation = activation(act, parts)?;
    let Some(layer) = parts.layer() else {
        return Err(parts.fault("feed-forward `per-layer-input` can only be used in a block"));
    };
    Ok(Box::new(PerLayerInput {
        gate: gate?,
        gating: GateForm::plain(activation),
        projection: projection?,
        layer,
    }))
}

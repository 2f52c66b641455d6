//! The feed-forward `per-layer-input`.

use super::names::activation;
use menagerie_model::components::PerLayerInput;
use menagerie_model::{FeedForward, GateForm};
use menagerie_registry::{Parts, component};
use menagerie_spec::config::PerLayerInputConfig;

component!(feed_forward PerLayerInputConfig, per_layer_input);

fn per_layer_input(config: &PerLayerInputConfig, parts: &mut dyn Parts) -> Option<Box<dyn FeedForward>> {
    // The width is in the dims of both tensors.
    let PerLayerInputConfig { width: _, activation: act } = config;
    let (gate, projection) = (parts.linear("inp_gate"), parts.linear("proj"));
    let (layer, activation) = (parts.layer()?, activation(act, parts)?);
    Some(Box::new(PerLayerInput {
        gate: gate?,
        gating: GateForm::plain(activation),
        projection: projection?,
        layer,
    }))
}

//! The mixer `linear`.

use menagerie_model::SequenceMixer;
use menagerie_model::components::LinearMixer;
use menagerie_registry::{Parts, component};
use menagerie_spec::config::LinearMixerConfig;

component!(mixer LinearMixerConfig, linear);

fn linear(LinearMixerConfig {}: &LinearMixerConfig, parts: &mut dyn Parts) -> Option<Box<dyn SequenceMixer>> {
    Some(Box::new(LinearMixer { product: parts.linear("attn_output")? }))
}

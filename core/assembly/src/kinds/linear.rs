//! The mixer `linear`.

use menagerie_model::SequenceMixer;
use menagerie_model::components::LinearMixer;
use menagerie_registry::{BuildResult, ComponentParts, component};
use menagerie_spec::config::LinearMixerConfig;

component!(mixer LinearMixerConfig, linear);

fn linear(
    LinearMixerConfig {}: &LinearMixerConfig,
    parts: &mut dyn ComponentParts,
) -> BuildResult<Box<dyn SequenceMixer>> {
    Ok(Box::new(LinearMixer { product: parts.linear("attn_output")? }))
}

//! The mixer `sum`.

use menagerie_model::SequenceMixer;
use menagerie_model::components::SumMixer;
use menagerie_registry::{BuildResult, ComponentParts, component};
use menagerie_spec::config::SumConfig;

component!(mixer SumConfig, sum);

fn sum(config: &SumConfig, parts: &mut dyn ComponentParts) -> BuildResult<Box<dyn SequenceMixer>> {
    let SumConfig { first, second } = config;
    let first = parts.mixer(first);
    let second = parts.mixer(second);
    Ok(Box::new(SumMixer { first: first?, second: second? }))
}

//! The mixer `sum`.

use menagerie_model::SequenceMixer;
use menagerie_model::components::SumMixer;
use menagerie_registry::{Parts, component};
use menagerie_spec::config::SumConfig;

component!(mixer SumConfig, sum);

fn sum(config: &SumConfig, parts: &mut dyn Parts) -> Option<Box<dyn SequenceMixer>> {
    let SumConfig { first, second } = config;
    let first = parts.mixer(first);
    let second = parts.mixer(second);
    Some(Box::new(SumMixer { first: first?, second: second? }))
}

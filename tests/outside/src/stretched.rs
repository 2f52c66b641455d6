//! The rope `stretched`: plain frequencies up to a context, divided by a factor for a longer one.

use menagerie_model::Result;
use menagerie_model::components::{FrequencyQuestion, RopeFrequencies, ScaledFrequencies, base_frequencies};
use menagerie_registry::{BuildResult, ComponentParts, component};
use menagerie_spec::kind::{Definition, Family, Positive, RecordedFault, ResolveContext, Sizes};
use menagerie_spec::options;

/// Frequencies that are divided where the context is longer than the first one.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct StretchedConfig {
    /// Divides every frequency of a longer context.
    pub factor: f32,
    /// Tokens up to which nothing is divided.
    pub first_context: usize,
}

options! {
    /// Options of `stretched`.
    pub struct StretchedOptions {
        /// Divides every frequency of a longer context.
        factor: Positive<f32> = Required => guarded,
        /// Tokens up to which nothing is divided.
        first_context: usize = Number(0.0) => guarded,
    }
}

impl Definition for StretchedConfig {
    type Options = StretchedOptions;
    const FAMILY: Family = Family::Rope;
    const NAME: &'static str = "stretched";
    const DOC: &'static str = "Frequencies divided by a factor (position interpolation; Chen et al., 2023).";

    fn resolve(options: StretchedOptions, _at: &mut ResolveContext<'_>) -> Result<Self, RecordedFault> {
        let StretchedOptions { factor: Positive(factor), first_context } = options;
        Ok(Self { factor, first_context })
    }

    fn sizes(&self, _into: &mut Sizes) {}
}

component!(rope StretchedConfig, build);

fn build(config: &StretchedConfig, _parts: &mut dyn ComponentParts) -> BuildResult<Box<dyn RopeFrequencies>> {
    Ok(Box::new(config.clone()))
}

impl RopeFrequencies for StretchedConfig {
    fn frequencies(&self, question: &FrequencyQuestion) -> Result<ScaledFrequencies> {
        let FrequencyQuestion { base, rotated, context_length } = *question;
        let divisor = if context_length > self.first_context { self.factor } else { 1.0 };
        let frequencies = base_frequencies(base, rotated, Some(&vec![divisor; rotated / 2]));
        Ok(ScaledFrequencies { frequencies, magnitude: 1.0 })
    }
}

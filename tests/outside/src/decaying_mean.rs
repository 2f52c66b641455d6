//! The mixer `decaying-mean`: `output(sum over earlier tokens of decay^distance * value(x))`, with a state per sequence.

use menagerie_model::{
    Linear, LinearInput, Result, Rows, SequenceMixer, StateId, StateSpec, TransformContext,
};
use menagerie_registry::{BuildResult, ComponentParts, component};
use menagerie_spec::kind::{Definition, Family, RecordedFault, ResolveContext, RoleDef, Sizes};
use menagerie_spec::options;

/// A decaying mean.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct DecayingMeanConfig {
    /// Columns that are kept.
    pub channels: usize,
    /// What is left of the sum after a token, between 0 and 1.
    pub decay: f32,
}

options! {
    /// Options of `decaying-mean`.
    pub struct DecayingMeanOptions {
        /// Columns that are kept.
        channels: usize = Key("mean.channels"),
        /// What is left of the sum after a token.
        decay: f32 = Number(0.5) => guarded,
    }
}

impl Definition for DecayingMeanConfig {
    type Options = DecayingMeanOptions;
    const FAMILY: Family = Family::Mixer;
    const NAME: &'static str = "decaying-mean";
    const DOC: &'static str = "A sum over earlier tokens that decays.";
    const ROLES: &'static [RoleDef] = &[
        RoleDef::linear("mean_value", &["D", "channels"], "What is summed."),
        RoleDef::linear("mean_output", &["channels", "D"], "The output projection."),
    ];

    fn resolve(options: DecayingMeanOptions, at: &mut ResolveContext<'_>) -> Result<Self, RecordedFault> {
        let DecayingMeanOptions { channels, decay } = options;
        if !(0.0..1.0).contains(&decay) {
            return at.fault("decay", format!("{decay}, expected a number from 0 up to 1"));
        }
        Ok(Self { channels, decay })
    }

    fn sizes(&self, into: &mut Sizes) {
        into.set("channels", self.channels);
    }
}

component!(mixer DecayingMeanConfig, build);

fn build(config: &DecayingMeanConfig, parts: &mut dyn ComponentParts) -> BuildResult<Box<dyn SequenceMixer>> {
    let DecayingMeanConfig { channels, decay } = *config;
    let value = parts.linear("mean_value");
    let output = parts.linear("mean_output");
    let spec = StateSpec::PerSequence { name: parts.name("mean"), shape: vec![channels] };
    let state = parts.states().declare(spec);
    Ok(Box::new(DecayingMean { value: value?, output: output?, decay, state }))
}

struct DecayingMean {
    value: Box<dyn Linear>,
    output: Box<dyn Linear>,
    decay: f32,
    state: StateId,
}

impl SequenceMixer for DecayingMean {
    fn forward(&self, x: &Rows, context: &mut TransformContext) -> Result<Rows> {
        let compute = context.compute;
        let value = self.value.forward(&LinearInput::new(x), context)?;
        let width = value.cols();
        let mut rows = compute.backend.read(&value)?.into_owned();
        for part in context.layout.sequences() {
            let mut sums = context.states.read_block(self.state, part.sequence)?;
            for row in rows[part.rows.start * width..part.rows.end * width].chunks_exact_mut(width) {
                for (sum, value) in sums.iter_mut().zip(row) {
                    *sum = *sum * self.decay + *value;
                    *value = *sum;
                }
            }
            context.states.write_block(self.state, part.sequence, &sums)?;
        }
        let mixed = compute.backend.upload(rows, width)?;
        self.output.forward(&LinearInput::new(&mixed), context)
    }
}

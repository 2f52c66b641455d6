//! The mixer `mamba1`.

use super::recurrent::{ConvChannels, by_tap, convolutions, vector};
use crate::array::array_of;
use menagerie_model::components::{Mamba1, Mamba1Channels, Mamba1Linears, Mamba1Norms};
use menagerie_model::{Operation, SequenceMixer};
use menagerie_registry::{BuildResult, ComponentParts, TensorPart, component, or_fault};
use menagerie_spec::config::{InnerNormConfig, Mamba1Config};

component!(mixer Mamba1Config, mamba1);

fn mamba1(config: &Mamba1Config, parts: &mut dyn ComponentParts) -> BuildResult<Box<dyn SequenceMixer>> {
    let Mamba1Config { inner, state, rank, length, conv_bias, inner_norm } = config;
    parts.needs(Operation::SelectiveScan)?;
    let products = parts.split_linear("ssm_in", &[*inner, *inner], &[]);
    let channels = [ConvChannels { state: "conv_x", width: *inner }];
    let convolution = convolutions(parts, channels, *length, *conv_bias);
    let rates = parts.split_linear("ssm_x", &[*rank, *state, *state], &[]);
    let step = parts.linear("ssm_dt");
    let norms = inner_norm.as_ref().map(|norm| norms([*rank, *state], norm, parts)).transpose();
    let decay = parts.values("ssm_a", TensorPart::Main);
    let skip = vector("ssm_d", TensorPart::Main, parts);
    let output = parts.linear("ssm_out");
    // In files, the state of a channel is contiguous.
    let decay = parts.vector("ssm_a", by_tap(&decay?, *state));
    let [input, gate] = array_of(parts, products?)?;
    let [rank, write, read] = array_of(parts, rates?)?;
    let linears = Mamba1Linears { input, gate, rank, write, read, step: step?, output: output? };
    let [convolution] = convolution?;
    let own = Mamba1Channels { decay: decay?, skip: skip? };
    let name = parts.name("ssm");
    let built = Mamba1::new(&name, (linears, convolution), own, norms?, parts.states());
    Ok(Box::new(or_fault(parts, built)?))
}

/// The inner norms.
pub(super) fn norms(
    [rank, state]: [usize; 2],
    config: &InnerNormConfig,
    parts: &mut dyn ComponentParts,
) -> BuildResult<Mamba1Norms> {
    let InnerNormConfig { step, write, read } = config;
    let rank = parts.norm("ssm_dt_norm", step, rank);
    let write = parts.norm("ssm_b_norm", write, state);
    let read = parts.norm("ssm_c_norm", read, state);
    Ok(Mamba1Norms { rank: rank?, write: write?, read: read? })
}

//! The mixer `mamba2-low-rank`.

use super::mamba1::norms;
use super::recurrent::{ConvChannels, convolution, vector};
use crate::array::array_of;
use menagerie_model::components::{Mamba2Heads, Mamba2LowRank, Mamba2LowRankLinears};
use menagerie_model::{KeySharing, LinearAttentionShape, Operation, SequenceMixer, StateUpdate};
use menagerie_registry::{BuildResult, ComponentParts, TensorPart, component, or_fault};
use menagerie_spec::config::Mamba2LowRankConfig;

component!(mixer Mamba2LowRankConfig, mamba2_low_rank);

fn mamba2_low_rank(
    config: &Mamba2LowRankConfig,
    parts: &mut dyn ComponentParts,
) -> BuildResult<Box<dyn SequenceMixer>> {
    let Mamba2LowRankConfig { heads, head_dim, state, rank, length, inner_norm } = config;
    parts.needs(Operation::LinearAttention)?;
    let input = parts.linear("ssm_in");
    let channels = ConvChannels { state: "conv_x", width: heads * head_dim };
    let convolution = convolution("ssm_conv1d", channels, *length, parts);
    let products = parts.split_linear("ssm_x", &[*state, *state, *rank], &[]);
    let step = parts.linear("ssm_dt");
    let norms = inner_norm.as_ref().map(|norm| norms([*rank, *state], norm, parts)).transpose();
    let step_bias = vector("ssm_dt", TensorPart::Bias, parts);
    let decay = vector("ssm_a", TensorPart::Main, parts);
    let skip = vector("ssm_d", TensorPart::Main, parts);
    let output = parts.linear("ssm_out");
    let [write, read, rank] = array_of(parts, products?)?;
    let linears = Mamba2LowRankLinears { input: input?, write, read, rank, step: step?, output: output? };
    let own = Mamba2Heads { step_bias: step_bias?, decay: decay?, skip: skip? };
    let shape = LinearAttentionShape {
        heads: *heads,
        key_heads: 1,
        key_dim: *state,
        value_dim: *head_dim,
        sharing: KeySharing::Consecutive,
        update: StateUpdate::Add,
    };
    let name = parts.name("ssm");
    let built = Mamba2LowRank::new(&name, shape, (linears, convolution?), own, norms?, parts.states());
    Ok(Box::new(or_fault(parts, built)?))
}

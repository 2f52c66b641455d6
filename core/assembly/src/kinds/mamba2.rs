//! The mixer `mamba2`.

use super::recurrent::{ConvChannels, convolutions, gated_norm, vector};
use crate::array::array_of;
use menagerie_model::components::{Mamba2, Mamba2Convolutions, Mamba2Heads, Mamba2Linears};
use menagerie_model::{KeySharing, LinearAttentionShape, Operation, SequenceMixer, StateUpdate};
use menagerie_registry::{BuildResult, ComponentParts, TensorPart, component, or_fault};
use menagerie_spec::config::Mamba2Config;

component!(mixer Mamba2Config, mamba2);

fn mamba2(config: &Mamba2Config, parts: &mut dyn ComponentParts) -> BuildResult<Box<dyn SequenceMixer>> {
    let Mamba2Config { heads, head_dim, groups, state, length, conv_bias, norm } = config;
    parts.needs(Operation::LinearAttention)?;
    let (inner, of_groups) = (heads * head_dim, groups * state);
    let products = parts.split_linear("ssm_in", &[inner, inner, of_groups, of_groups, *heads], &[]);
    let channels = [("conv_x", inner), ("conv_b", of_groups), ("conv_c", of_groups)];
    let channels = channels.map(|(state, width)| ConvChannels { state, width });
    let convolutions = convolutions(parts, channels, *length, *conv_bias);
    let step_bias = vector("ssm_dt", TensorPart::Bias, parts);
    let decay = vector("ssm_a", TensorPart::Main, parts);
    let skip = vector("ssm_d", TensorPart::Main, parts);
    let norm = gated_norm(norm.as_ref(), [inner / groups, *groups], parts);
    let output = parts.linear("ssm_out");
    let [gate, values, keys, queries, step] = array_of(parts, products?)?;
    let linears = Mamba2Linears { gate, values, keys, queries, step, output: output? };
    let [values, keys, queries] = convolutions?;
    let convolutions = Mamba2Convolutions { values, keys, queries };
    let own = Mamba2Heads { step_bias: step_bias?, decay: decay?, skip: skip? };
    let shape = LinearAttentionShape {
        heads: *heads,
        key_heads: *groups,
        key_dim: *state,
        value_dim: *head_dim,
        sharing: KeySharing::Consecutive,
        update: StateUpdate::Add,
    };
    let name = parts.name("ssm");
    let built = Mamba2::new(&name, shape, (linears, convolutions), own, norm?, parts.states());
    Ok(Box::new(or_fault(parts, built)?))
}

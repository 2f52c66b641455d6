//! The mixer `gated-delta-net`.

use super::recurrent::{ConvChannels, convolutions, gated_norm, vector};
use crate::array::array_of;
use menagerie_model::components::{
    DeltaNetConvolutions, DeltaNetHeads, DeltaNetLinears, DeltaNetRates, GatedDeltaNet,
};
use menagerie_model::{LinearAttentionShape, Operation, SequenceMixer, StateUpdate};
use menagerie_registry::{BuildResult, ComponentParts, TensorPart, component, or_fault};
use menagerie_spec::config::GatedDeltaNetConfig;

component!(mixer GatedDeltaNetConfig, gated_delta_net);

fn gated_delta_net(
    config: &GatedDeltaNetConfig,
    parts: &mut dyn ComponentParts,
) -> BuildResult<Box<dyn SequenceMixer>> {
    let GatedDeltaNetConfig {
        heads,
        key_heads,
        key_dim,
        value_dim,
        sharing,
        length,
        conv_bias,
        length_eps,
        norm,
    } = config;
    parts.needs(Operation::LinearAttention)?;
    let (of_keys, of_values) = (key_heads * key_dim, heads * value_dim);
    let products = parts.split_linear("attn_qkv", &[of_keys, of_keys, of_values], &[]);
    let gate = parts.linear("attn_gate");
    let rates = rates_of(parts);
    let channels = [("conv_q", of_keys), ("conv_k", of_keys), ("conv_v", of_values)];
    let channels = channels.map(|(state, width)| ConvChannels { state, width });
    let convolutions = convolutions(parts, channels, *length, *conv_bias);
    let decay_bias = vector("ssm_dt", TensorPart::Bias, parts);
    let decay = vector("ssm_a", TensorPart::Main, parts);
    // All heads share one weight.
    let norm = gated_norm(norm.as_ref(), [*value_dim, 1], parts);
    let output = parts.linear("ssm_out");
    let [queries, keys, values] = array_of(parts, products?)?;
    let linears = DeltaNetLinears { queries, keys, values, gate: gate?, rates: rates?, output: output? };
    let [queries, keys, values] = convolutions?;
    let convolutions = DeltaNetConvolutions { queries, keys, values };
    let own = DeltaNetHeads { decay_bias: decay_bias?, decay: decay? };
    let shape = LinearAttentionShape {
        heads: *heads,
        key_heads: *key_heads,
        key_dim: *key_dim,
        value_dim: *value_dim,
        sharing: *sharing,
        update: StateUpdate::Delta,
    };
    let name = parts.name("delta");
    let built =
        GatedDeltaNet::new(&name, (shape, *length_eps), (linears, convolutions), own, norm?, parts.states());
    Ok(Box::new(or_fault(parts, built)?))
}

fn rates_of(parts: &mut dyn ComponentParts) -> BuildResult<DeltaNetRates> {
    if parts.has("ssm_ba", TensorPart::Main) {
        return parts.linear("ssm_ba").map(DeltaNetRates::ByKeyHead);
    }
    let strength = parts.linear("ssm_beta");
    let decay = parts.linear("ssm_alpha");
    Ok(DeltaNetRates::Apart { strength: strength?, decay: decay? })
}

//! The mixer `kda`.

use super::qk_norm::head_norm;
use super::recurrent::{ConvChannels, convolution, vector};
use crate::array::array_of;
use menagerie_model::components::{
    DeltaNetConvolutions, DeltaNetHeads, DeltaNetLinears, DeltaNetRates, GatedDeltaNet, GatedNorm,
    LowRankLinear,
};
use menagerie_model::{
    Activation, KeySharing, Linear, LinearAttentionShape, Operation, SequenceMixer, StateUpdate,
};
use menagerie_registry::{BuildResult, ComponentParts, TensorPart, component, or_fault};
use menagerie_spec::config::{KdaConfig, QkNormOver};

component!(mixer KdaConfig, kda);

fn kda(config: &KdaConfig, parts: &mut dyn ComponentParts) -> BuildResult<Box<dyn SequenceMixer>> {
    let KdaConfig { heads, dim, length, length_eps, norm } = config;
    parts.needs(Operation::LinearAttention)?;
    let linears = linears_of(heads * dim, parts);
    let channels = [("q", "conv_q"), ("k", "conv_k"), ("v", "conv_v")].map(|(part, state)| {
        let channels = ConvChannels { state, width: heads * dim };
        convolution(&format!("ssm_conv1d_{part}"), channels, *length, parts)
    });
    let decay_bias = vector("ssm_dt", TensorPart::Bias, parts);
    // One number per head, repeated for every element of its keys. The count is limited by the biases in the file, so that a
    // key cannot cause an arbitrarily large allocation.
    let decay = parts.values("ssm_a", TensorPart::Main).and_then(|decay| {
        decay_bias.as_ref().map_err(|fault| *fault)?;
        let by_element = decay.iter().flat_map(|decay| std::iter::repeat_n(*decay, *dim)).collect();
        parts.vector("ssm_a", by_element)
    });
    let norm = head_norm("ssm_norm", norm, QkNormOver::Head, [*dim, 1], parts);
    let [queries, keys, values] = channels;
    let convolutions = DeltaNetConvolutions { queries: queries?, keys: keys?, values: values? };
    let own = DeltaNetHeads { decay_bias: decay_bias?, decay: decay? };
    let shape = LinearAttentionShape {
        heads: *heads,
        key_heads: *heads,
        key_dim: *dim,
        value_dim: *dim,
        sharing: KeySharing::Consecutive,
        update: StateUpdate::Delta,
    };
    let (name, norm) = (parts.name("delta"), GatedNorm::NormFirst(norm?, Activation::Sigmoid));
    let made = (linears?, convolutions);
    let built = GatedDeltaNet::new(&name, (shape, *length_eps), made, own, norm, parts.states());
    Ok(Box::new(or_fault(parts, built)?))
}

fn linears_of(inner: usize, parts: &mut dyn ComponentParts) -> BuildResult<DeltaNetLinears> {
    let products = if parts.has("attn_qkv", TensorPart::Main) {
        parts.split_linear("attn_qkv", &[inner; 3], &[])
    } else {
        let made = ["attn_q", "attn_k", "attn_v"].map(|role| parts.linear(role));
        made.into_iter().collect()
    };
    let strength = parts.linear("ssm_beta");
    let decay = low_rank(["ssm_f_a", "ssm_f_b"], parts);
    let gate = low_rank(["ssm_g_a", "ssm_g_b"], parts);
    let output = parts.linear("attn_output");
    let [queries, keys, values] = array_of(parts, products?)?;
    let rates = DeltaNetRates::Apart { strength: strength?, decay: decay? };
    Ok(DeltaNetLinears { queries, keys, values, gate: gate?, rates, output: output? })
}

fn low_rank([down, up]: [&str; 2], parts: &mut dyn ComponentParts) -> BuildResult<Box<dyn Linear>> {
    let (down, up) = (parts.linear(down), parts.linear(up));
    Ok(Box::new(LowRankLinear { down: down?, up: up? }))
}

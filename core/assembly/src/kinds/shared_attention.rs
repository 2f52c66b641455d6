//! Attention over the keys and values of an earlier layer.

use super::attention::{mask_of, sizes_are_possible};
use super::qk_norm::head_norm;
use super::rope::rope;
use menagerie_model::components::SharedAttention;
use menagerie_model::{AttentionShape, AttentionStates, Operation, SequenceMixer, StateId, StateSpec};
use menagerie_registry::{BuildResult, ComponentParts};
use menagerie_spec::config::{AttentionConfig, QkNormAt, QkNormConfig};

/// An attention with its own queries and output, and with the keys and values of `layer`.
pub(super) fn shared_attention(
    config: &AttentionConfig,
    layer: usize,
    parts: &mut dyn ComponentParts,
) -> BuildResult<Box<dyn SequenceMixer>> {
    let AttentionConfig { qk_norm, rope: rotary, .. } = config;
    parts.needs(Operation::StoredAttention)?;
    sizes_are_possible(config, parts)?;
    let shape = shape_of(config, parts)?;
    let [query, output] = ["attn_q", "attn_output"].map(|role| parts.linear(role));
    let norm = qk_norm.as_ref().map(|norm| query_norm(norm, &shape, parts)).transpose();
    let rotary = rotary.as_ref().map(|config| rope(config, parts)).transpose();
    let keys = state_of(layer, "k", &shape, shape.key_dim, parts);
    let values = state_of(layer, "v", &shape, shape.value_dim, parts);
    let states = AttentionStates { keys: keys?, values: values? };
    let mut built = SharedAttention::new(query?, output?, shape, states);
    built.norm = norm?;
    if let Some(rotary) = rotary? {
        built = built.with_rope(rotary, parts.ropes());
    }
    Ok(Box::new(built))
}

/// Heads, scale and mask. Every field of the config is destructured here, and those that cannot be combined with the keys of
/// another layer are faults.
fn shape_of(config: &AttentionConfig, parts: &mut dyn ComponentParts) -> BuildResult<AttentionShape> {
    let AttentionConfig {
        heads,
        kv_heads,
        key_dim,
        value_dim,
        qkv_bias: _,
        output_bias: _,
        scale,
        mask,
        softcap,
        clamp,
        sinks,
        qk_norm: _,
        v_norm: _,
        window,
        temperature,
        gate,
        inner_norm,
        alibi,
        relative_bias,
        rope: _,
        values: _,
        keys_of: _,
    } = config;
    let others = [
        clamp.is_some(),
        sinks.is_some(),
        temperature.is_some(),
        gate.is_some(),
        inner_norm.is_some(),
        alibi.is_some(),
        relative_bias.is_some(),
    ];
    if others.contains(&true) {
        return Err(parts.fault(
            "attention: clamp, sinks, temperature, gate, inner_norm, alibi and relative_bias are not supported with keys of \
             another layer (`keys_of`); remove them from the spec",
        ));
    }
    let mask = mask_of(*mask, *window, parts)?;
    Ok(AttentionShape {
        heads: *heads,
        kv_heads: *kv_heads,
        key_dim: *key_dim,
        value_dim: *value_dim,
        scale: *scale,
        softcap: *softcap,
        mask,
        alibi: None,
    })
}

fn query_norm(
    config: &QkNormConfig,
    shape: &AttentionShape,
    parts: &mut dyn ComponentParts,
) -> BuildResult<menagerie_model::components::HeadNorm> {
    let QkNormConfig { over, at, norm, key_norm: _ } = config;
    if *at != QkNormAt::BeforeRope {
        return Err(parts
            .fault("attention: a norm after rope is not supported with keys of another layer (`keys_of`)"));
    }
    head_norm("attn_q_norm", norm, *over, [shape.key_dim, shape.heads], parts)
}

/// A state of an earlier layer, if its heads and window match.
fn state_of(
    layer: usize,
    name: &str,
    shape: &AttentionShape,
    dim: usize,
    parts: &mut dyn ComponentParts,
) -> BuildResult<StateId> {
    let name = format!("blk.{layer}.{name}");
    let expected = (shape.kv_heads, dim, shape.mask.window());
    let fault = match parts.states().find(&name) {
        Some((state, StateSpec::PerToken { heads, head_dim, window, .. })) => {
            if expected == (*heads, *head_dim, *window) {
                return Ok(state);
            }
            format!(
                "expected {} heads of {} elements and window {:?} in layer {layer}, found {heads} heads of {head_dim} \
                 elements and window {window:?}",
                expected.0, expected.1, expected.2
            )
        }
        _ => format!("layer {layer} has no keys and values of its own, or is in another stage"),
    };
    Err(parts.fault(&format!("attention: `keys_of` is {layer}: {fault}")))
}

//! The mixer `attention`.

use super::qk_norm::{head_norm, qk_norm};
use super::rope::rope;
use super::shared_attention::shared_attention;
use crate::array::array_of;
use menagerie_model::components::{
    Attention, AttentionGate, AttentionLinears, BucketSides, DistanceBuckets, GateSource, HeadNorm, QkNorm,
    Rope, Temperature,
};
use menagerie_model::{Activation, AttentionShape, Linear, Mask, Norm, Operation, Param, SequenceMixer};
use menagerie_registry::{BuildResult, ComponentParts, TensorPart, component, or_fault};
use menagerie_spec::config::{
    self, AttentionConfig, AttentionGateConfig, GateActivation, MaskKind, NormSite, RelativeBiasConfig,
    TemperatureConfig, ValueNormConfig, ValueSource, WindowConfig, WindowKind,
};

component!(mixer AttentionConfig, attention);

fn attention(
    config: &AttentionConfig,
    parts: &mut dyn ComponentParts,
) -> BuildResult<Box<dyn SequenceMixer>> {
    if let Some(layer) = config.keys_of {
        return shared_attention(config, layer, parts);
    }
    sizes_are_possible(config, parts)?;
    let linears = linears_of(config, parts);
    let shape = shape_of(config, parts);
    let options = options_of(config, parts);
    let (linears, shape, options) = (linears?, shape?, options?);
    let [keys, values] = [parts.name("k"), parts.name("v")];
    let built = Attention::new([&keys, &values], linears, shape, parts.states());
    let mut built = or_fault(parts, built)?;
    built.clamp = options.clamp;
    built.qk_norm = options.qk_norm;
    built.v_norm = options.v_norm;
    built.temperature = options.temperature;
    built.inner_norm = options.inner_norm;
    if let Some(rotary) = options.rope {
        built = built.with_rope(rotary, parts.ropes());
    }
    if let Some(sinks) = options.sinks {
        let with_sinks = built.with_sinks(sinks);
        built = or_fault(parts, with_sinks)?;
    }
    if let Some(table) = options.distances {
        let with_distances = built.with_distances(table);
        built = or_fault(parts, with_distances)?;
    }
    Ok(Box::new(built))
}

/// The optional parts of an attention.
struct AttentionExtras {
    clamp: Option<f32>,
    qk_norm: Option<QkNorm>,
    v_norm: Option<HeadNorm>,
    rope: Option<Rope>,
    sinks: Option<Param>,
    distances: Option<Param>,
    inner_norm: Option<Box<dyn Norm>>,
    temperature: Option<Temperature>,
}

/// Every field of the config is destructured here, in [`shape_of`] or in [`linears_of`], so a new field does not compile
/// until it is used.
fn options_of(config: &AttentionConfig, parts: &mut dyn ComponentParts) -> BuildResult<AttentionExtras> {
    let AttentionConfig {
        heads,
        kv_heads,
        key_dim: _,
        value_dim,
        qkv_bias: _,
        output_bias: _,
        scale: _,
        mask: _,
        softcap: _,
        clamp,
        alibi: _,
        relative_bias,
        sinks,
        qk_norm: norm,
        v_norm,
        window: _,
        temperature,
        gate: _,
        inner_norm,
        rope: rotary,
        values: _,
        keys_of: _,
    } = config;
    let norm = norm.as_ref().map(|norm| qk_norm(norm, config, parts)).transpose();
    let v_norm = v_norm
        .as_ref()
        .map(|ValueNormConfig { over, norm }| {
            head_norm("attn_v_norm", norm, *over, [*value_dim, *kv_heads], parts)
        })
        .transpose();
    let rotary = rotary.as_ref().map(|config| rope(config, parts)).transpose();
    let sinks = sinks
        .as_ref()
        .map(|role| {
            parts.needs(Operation::Sinks)?;
            let values = parts.values(role, TensorPart::Main)?;
            parts.vector(role, values)
        })
        .transpose();
    let inner_norm = inner_norm
        .as_ref()
        .map(|NormSite { role, norm }| parts.norm(role, norm, heads * value_dim))
        .transpose();
    let temperature =
        temperature.map(|TemperatureConfig { scale, length, offset }| Temperature { scale, length, offset });
    let (clamp, qk_norm, v_norm) = (*clamp, norm?, v_norm?);
    let distances = relative_bias.as_ref().map(|bias| distances(bias, config, parts)).transpose();
    let (rope, sinks, inner_norm, distances) = (rotary?, sinks?, inner_norm?, distances?);
    Ok(AttentionExtras { clamp, qk_norm, v_norm, rope, sinks, distances, inner_norm, temperature })
}

/// Learned biases by distance, expanded from buckets.
fn distances(
    bias: &RelativeBiasConfig,
    config: &AttentionConfig,
    parts: &mut dyn ComponentParts,
) -> BuildResult<Param> {
    let RelativeBiasConfig { role, buckets, max_distance } = bias;
    let sides = match config.mask {
        MaskKind::Causal => BucketSides::Before,
        MaskKind::Bidirectional => BucketSides::Both,
    };
    let table = parts.values(role, TensorPart::Main)?;
    let buckets = DistanceBuckets { count: *buckets, farthest: *max_distance, sides };
    parts.vector(role, buckets.by_distance(&table, config.heads))
}

/// Heads, scale and mask.
fn shape_of(config: &AttentionConfig, parts: &mut dyn ComponentParts) -> BuildResult<AttentionShape> {
    let AttentionConfig { heads, kv_heads, key_dim, value_dim, scale, softcap, mask, window, alibi, .. } =
        *config;
    let mask = mask_of(mask, window, parts)?;
    Ok(AttentionShape { heads, kv_heads, key_dim, value_dim, scale, softcap, mask, alibi })
}

/// The four projections; the kind's table says which of them have biases.
fn linears_of(config: &AttentionConfig, parts: &mut dyn ComponentParts) -> BuildResult<AttentionLinears> {
    let qkv = query_key_value(config, parts);
    let gate = config.gate.map(|gate| gate_of(gate, parts)).transpose();
    let output = parts.linear("attn_output");
    let (query, key, value) = qkv?;
    Ok(AttentionLinears { query, key, value, output: output?, gate: gate? })
}

/// The gate. Its number of rows says whether it is per head or per element; the component checks it.
fn gate_of(config: AttentionGateConfig, parts: &mut dyn ComponentParts) -> BuildResult<AttentionGate> {
    let AttentionGateConfig { from, per: _, activation } = config;
    let source = match from {
        config::GateSource::Own => GateSource::Own(parts.linear("attn_gate")?),
        config::GateSource::InterleavedQ => GateSource::BesideQueries,
    };
    let activation = match activation {
        GateActivation::Sigmoid => Activation::Sigmoid,
        GateActivation::Softplus => Activation::Softplus,
    };
    Ok(AttentionGate { source, activation })
}

/// Checks that there are heads, that groups have equal sizes, and that row widths do not overflow.
pub(super) fn sizes_are_possible(
    config: &AttentionConfig,
    parts: &mut dyn ComponentParts,
) -> BuildResult<()> {
    let AttentionConfig { heads, kv_heads, key_dim, value_dim, .. } = *config;
    let widths = [(heads, key_dim), (kv_heads, key_dim), (kv_heads, value_dim), (heads, value_dim)];
    let countable = |(heads, dim): (usize, usize)| {
        heads.checked_mul(dim).is_some_and(|width| (1..1 << 31).contains(&width))
    };
    if widths.into_iter().all(countable) && heads.is_multiple_of(kv_heads) {
        return Ok(());
    }
    Err(parts.fault(&format!(
        "attention: {heads} query heads, {kv_heads} key-value heads, heads of {key_dim} (keys) and {value_dim} (values) \
         elements; the key-value heads must divide the query heads, and none may be 0"
    )))
}

pub(super) fn mask_of(
    mask: MaskKind,
    window: Option<WindowConfig>,
    parts: &mut dyn ComponentParts,
) -> BuildResult<Mask> {
    let window = window.map(|WindowConfig { kind, size }| (kind, size));
    let mask = match (mask, window) {
        (MaskKind::Causal, None) => Mask::Causal,
        (MaskKind::Causal, Some((WindowKind::Sliding, size))) => Mask::Sliding { size },
        (MaskKind::Causal, Some((WindowKind::Chunked, size))) => Mask::Chunked { size },
        (MaskKind::Bidirectional, None) => Mask::Bidirectional,
        (MaskKind::Bidirectional, Some((WindowKind::Symmetric, size))) => Mask::Symmetric { size },
        (mask, Some((kind, _))) => {
            return Err(parts.fault(&format!(
                "attention: a {} window cannot be combined with a {} mask",
                kind.name(),
                mask.name()
            )));
        }
    };
    if mask.is_bidirectional() {
        parts.needs(Operation::LookAhead)?;
    }
    Ok(mask)
}

/// Projections of queries, of keys, and of values unless they are the keys.
type Projections = (Box<dyn Linear>, Box<dyn Linear>, Option<Box<dyn Linear>>);

/// The projections, from separate weights or from rows of one weight.
fn query_key_value(config: &AttentionConfig, parts: &mut dyn ComponentParts) -> BuildResult<Projections> {
    const ROLES: [&str; 3] = ["attn_q", "attn_k", "attn_v"];
    let AttentionConfig { heads, kv_heads, key_dim, value_dim, values, .. } = *config;
    if values == ValueSource::Keys {
        let [query, key] = ["attn_q", "attn_k"].map(|role| parts.linear(role));
        return Ok((query?, key?, None));
    }
    if parts.has("attn_qkv", TensorPart::Main) {
        let rows = [heads * key_dim, kv_heads * key_dim, kv_heads * value_dim];
        let linears = parts.split_linear("attn_qkv", &rows, &ROLES)?;
        let [query, key, value] = array_of(parts, linears)?;
        return Ok((query, key, Some(value)));
    }
    let [query, key, value] = ROLES.map(|role| parts.linear(role));
    Ok((query?, key?, Some(value?)))
}

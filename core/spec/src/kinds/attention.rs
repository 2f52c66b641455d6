//! The mixer `attention`.

use super::attention_gate::{AttentionGateConfig, gate_fits, gate_sizes};
use super::qk_norm::{
    QkNormConfig, QkNormOptions, QkNormOver, ValueNormConfig, ValueNormOptions, resolve_qk_norm,
    resolve_value_norm,
};
use super::relative_bias::{RELATIVE_BIAS, RelativeBiasConfig, RelativeBiasOptions, resolve_relative_bias};
use super::rope::{ROPE_FACTORS_LONG, ROPE_FACTORS_SHORT, ROPE_FREQS, RopeConfig, RopeOptions, resolve_rope};
use crate::config::{BiasRule, NormSite, Role};
use crate::kind::{
    Cap, Definition, Family, FreeSize, Lazy, Nested, OneOrEach, Optional, OptionalNorm, Positive,
    RecordedFault, ResolveContext, RoleDef, Sizes,
};
use crate::{names, options};

/// Attention of one layer.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct AttentionConfig {
    /// Query heads.
    pub heads: usize,
    /// Key and value heads; divides `heads`.
    pub kv_heads: usize,
    /// Elements of a query or key head.
    pub key_dim: usize,
    /// Elements of a value head.
    pub value_dim: usize,
    /// Bias of the q, k, v projections, decided per tensor by `if-present`.
    pub qkv_bias: BiasRule,
    /// Bias of the output projection.
    pub output_bias: BiasRule,
    /// Multiplies q.k.
    pub scale: f32,
    /// Which keys a query sees, apart from the window.
    pub mask: MaskKind,
    /// `cap * tanh(s / cap)` on the scores; absent = none.
    pub softcap: Option<f32>,
    /// Clamp of the q, k, v projections to `[-c, c]`; absent = none.
    pub clamp: Option<f32>,
    /// Largest bias of ALiBi (Press et al., 2021): what distance takes from the scores; absent = none.
    pub alibi: Option<f32>,
    /// Learned biases by distance, in buckets; absent = none.
    pub relative_bias: Option<RelativeBiasConfig>,
    /// Role of the per-head sink logits.
    pub sinks: Option<Role>,
    /// Norm on queries and keys.
    pub qk_norm: Option<QkNormConfig>,
    /// Norm on values.
    pub v_norm: Option<ValueNormConfig>,
    /// Window of visible keys.
    pub window: Option<WindowConfig>,
    /// Query temperature that grows with the position.
    pub temperature: Option<TemperatureConfig>,
    /// Gate on the heads' outputs.
    pub gate: Option<AttentionGateConfig>,
    /// Norm on the heads' outputs together, before the output projection.
    pub inner_norm: Option<NormSite>,
    /// Rotary positions; absent = no positions.
    pub rope: Option<RopeConfig>,
    /// Source of the values.
    pub values: ValueSource,
    /// The earlier layer whose keys and values it attends to; absent = its own.
    pub keys_of: Option<usize>,
}

options! {
    /// Options of `attention`.
    pub struct AttentionOptions {
        /// Query heads.
        heads: Positive<usize> = Key("attention.head_count"),
        /// Key and value heads; divides `heads`.
        kv_heads: Positive<usize> = Key("attention.head_count_kv"),
        /// Elements of a query or key head.
        key_dim: Positive<usize> = Key("attention.key_length"),
        /// Elements of a value head.
        value_dim: Positive<usize> = Key("attention.value_length"),
        /// Bias of the projections: one rule for all, or `{ qkv, output }`.
        bias: OneOrEach<AttentionBias> = Fields,
        /// Multiplies q.k.
        scale: Option<f32> = Computed { how: "1 / sqrt(key_dim)", reads: &[] } => guarded,
        /// Which keys a query sees, apart from the window.
        mask: MaskKind = Name("causal") => guarded,
        /// `cap * tanh(s / cap)` on the scores; 0 = none.
        softcap: Cap = Absent => guarded,
        /// Clamp of the q, k, v projections to `[-c, c]`; 0 = none.
        clamp: Cap = Absent,
        /// Linear biases (Press et al., 2021): a penalty that grows with the distance, with one slope per head.
        alibi: Optional<AlibiOptions> = Absent,
        /// Learned biases by distance, in buckets (Raffel et al., 2020).
        relative_bias: Optional<RelativeBiasOptions> = Absent,
        /// Role of the per-head sink logits.
        sinks: Optional<SinksOptions> = Absent,
        /// Norm on queries and keys.
        qk_norm: Optional<QkNormOptions> = Absent,
        /// Norm on values.
        v_norm: Optional<ValueNormOptions> = Absent,
        /// Window of visible keys.
        window: Optional<WindowConfig> = Absent,
        /// Query temperature that grows with the position.
        temperature: Optional<TemperatureOptions> = Absent,
        /// Gate on the heads' outputs, before the output projection.
        gate: Optional<AttentionGateConfig> = Absent,
        /// Norm on the heads' outputs together, before the output projection.
        inner_norm: OptionalNorm = Absent,
        /// Rotary positions; absent = no positions.
        rope: Optional<RopeOptions> = Absent,
        /// Source of the values.
        values: ValueOption = Name("own") => guarded,
        /// Index of the earlier layer whose keys and values it attends to; its own index = its own keys and values.
        keys_of: Option<usize> = Absent => guarded,
    }
}

names! {
    /// What values are, as a spec says it.
    pub enum ValueOption {
        /// A product of their own.
        Own = "own",
        /// A product of their own, or the keys before their norm and rope in layers where the file has none.
        OwnOrKeys = "own-or-keys",
    }
}

/// What values are; `own-or-keys` is already decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ValueSource {
    /// A product of their own.
    Own,
    /// The keys, before their norm and rope.
    Keys,
}

options! {
    /// Bias rules of attention.
    pub struct AttentionBias {
        /// Queries, keys and values.
        qkv: BiasRule = Name("none"),
        /// The output projection.
        output: BiasRule = Name("none"),
    }
}

options! {
    /// Linear biases (Press et al., 2021): `score - slope * |query position - key position|`, after the soft cap. The slope
    /// of head `h` is `2^(-max_bias * (h + 1) / n)`, `n` the largest power of two up to the number of heads, and past
    /// that `2^(-max_bias * (2 * (h - n) + 1) / (2 * n))`.
    pub struct AlibiOptions {
        /// Exponent of the slope of head `n - 1`, negated; 0 = none.
        max_bias: Cap = Required => guarded,
    }
}

options! {
    /// Logits that take part in the softmax and have no value.
    pub struct SinksOptions {
        /// Role of the logits, one per head.
        role: Role = Required,
    }
}

names! {
    /// Which keys a query sees, apart from the window.
    pub enum MaskKind {
        /// Keys at or before the query.
        Causal = "causal",
        /// All keys.
        Bidirectional = "bidirectional",
    }
}

options! {
    /// Window of visible keys; size 0 is none.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
    pub struct WindowConfig {
        /// How the window lies.
        kind: WindowKind = Required,
        /// Tokens; 0 = none.
        size: usize = Required,
    }
}

names! {
    /// How a window lies.
    pub enum WindowKind {
        /// `0 <= q - k < size`.
        Sliding = "sliding",
        /// Same `position / size`.
        Chunked = "chunked",
        /// `|q - k| <= size / 2`.
        Symmetric = "symmetric",
    }
}

/// `q *= 1 + scale * ln(1 + floor((pos + offset) / length))`, after rope.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct TemperatureConfig {
    /// Growth; never 0 here.
    pub scale: f32,
    /// Tokens per step.
    pub length: f32,
    /// Added to the position.
    pub offset: f32,
}

options! {
    /// `q *= 1 + scale * ln(1 + floor((pos + offset) / length))`, after rope; scale 0 is none.
    pub struct TemperatureOptions {
        /// Growth; 0 = none.
        scale: f32 = Required => guarded,
        /// Tokens per step.
        length: Lazy<Positive<f32>> = Required => guarded,
        /// Added to the position.
        offset: Lazy<f32> = Required => guarded,
    }
}

const QKV: &str = "q, k and v";

impl Definition for AttentionConfig {
    type Options = AttentionOptions;
    const FAMILY: Family = Family::Mixer;
    const NAME: &'static str = "attention";
    const DOC: &'static str =
        "Softmax attention (Vaswani et al., 2017) over cached keys and values, with grouped heads.";
    const ROLES: &'static [RoleDef] = &[
        RoleDef::linear("attn_q", &["D", "heads*key_dim"], "Queries.")
            .with_bias("qkv")
            .when("queries alone")
            .in_form(QKV, "split"),
        RoleDef::linear("attn_q", &["D", "2*heads*key_dim"], "Head by head a query, then the gate.")
            .with_bias("qkv")
            .when("gate among queries")
            .in_form(QKV, "split"),
        RoleDef::linear("attn_k", &["D", "kv_heads*key_dim"], "Keys.")
            .with_bias("qkv")
            .when("own keys")
            .in_form(QKV, "split"),
        RoleDef::linear("attn_v", &["D", "kv_heads*value_dim"], "Values.")
            .with_bias("qkv")
            .when("own values")
            .in_form(QKV, "split"),
        RoleDef::linear(
            "attn_qkv",
            &["D", "heads*key_dim+kv_heads*key_dim+kv_heads*value_dim"],
            "Rows of queries, keys and values; the biases may stand apart.",
        )
        .with_bias("qkv")
        .when("queries, own keys and own values alone")
        .in_form(QKV, "fused"),
        RoleDef::linear("attn_output", &["heads*value_dim", "D"], "The output projection.")
            .with_bias("output"),
        RoleDef::linear(
            "attn_gate",
            &["D", "gate_rows"],
            "The gate: a row per head, or one per element of a head.",
        )
        .with_bias("qkv")
        .when("gate"),
        RoleDef::norm(
            "attn_sub_norm",
            &["heads*value_dim"],
            "inner_norm",
            "Norm on the heads' outputs, before the output projection.",
        )
        .given_by("inner_norm"),
        RoleDef::norm("attn_q_norm", &["q_norm"], "qk_norm", "Norm on queries."),
        RoleDef::norm("attn_k_norm", &["k_norm"], "key_norm", "Norm on keys."),
        RoleDef::norm("attn_v_norm", &["v_norm"], "v_norm", "Norm on values."),
        RoleDef::values(
            "attn_sinks",
            &["heads"],
            "One logit per head that takes part in the softmax and has no value.",
        )
        .given_by("sinks"),
        RELATIVE_BIAS,
        ROPE_FREQS,
        ROPE_FACTORS_LONG,
        ROPE_FACTORS_SHORT,
    ];

    const FREE: &'static [FreeSize] = &[FreeSize {
        symbol: "gate_rows",
        hints: &["attention.head_count"],
        doc: "Rows of a gate: query heads, or their elements.",
    }];

    fn resolve(options: AttentionOptions, at: &mut ResolveContext<'_>) -> Result<Self, RecordedFault> {
        let AttentionOptions {
            heads: Positive(heads),
            kv_heads: Positive(kv_heads),
            key_dim: Positive(key_dim),
            value_dim: Positive(value_dim),
            bias: OneOrEach(AttentionBias { qkv: qkv_bias, output: output_bias }),
            scale,
            mask,
            softcap: Cap(softcap),
            clamp: Cap(clamp),
            alibi: Optional(alibi),
            relative_bias: Optional(relative_bias),
            sinks: Optional(sinks),
            qk_norm: Optional(qk_norm),
            v_norm: Optional(v_norm),
            window: Optional(window),
            temperature: Optional(temperature),
            gate: Optional(gate),
            inner_norm: OptionalNorm(inner_norm),
            rope: Optional(rope),
            values,
            keys_of,
        } = options;
        let gate = gate.map(|gate| gate.options);
        heads_fit([heads, kv_heads], [key_dim, value_dim], gate, at)?;
        let norms = norms(qk_norm, v_norm, at);
        let positions = positions(temperature, rope, key_dim, at);
        let biases = distance_biases(alibi, relative_bias, mask, at);
        let ((qk_norm, v_norm), (temperature, rope), (alibi, relative_bias)) = (norms?, positions?, biases?);
        let (values, keys_of) = sources(values, keys_of, key_dim == value_dim, at)?;
        Ok(AttentionConfig {
            heads,
            kv_heads,
            key_dim,
            value_dim,
            qkv_bias,
            output_bias,
            scale: scale.unwrap_or_else(|| usual_scale(key_dim, at)),
            mask,
            softcap,
            clamp,
            alibi,
            relative_bias,
            sinks: sinks.map(|sinks| sinks.options.role),
            qk_norm,
            v_norm,
            window: window.map(|window| window.options).filter(|window| window.size > 0),
            temperature,
            gate,
            inner_norm,
            rope,
            values,
            keys_of,
        })
    }

    fn regime_limit(&self) -> Option<usize> {
        self.rope.as_ref()?.regime_limit()
    }

    fn sizes(&self, into: &mut Sizes) {
        for (symbol, size) in [
            ("heads", self.heads),
            ("kv_heads", self.kv_heads),
            ("key_dim", self.key_dim),
            ("value_dim", self.value_dim),
        ] {
            into.set(symbol, size);
        }
        gate_sizes(self.gate, self.heads, self.value_dim, into);
        into.norm_site("inner_norm", self.inner_norm.as_ref());
        let own_keys = self.keys_of.is_none();
        into.holds("own keys", own_keys);
        let own_values = own_keys && self.values == ValueSource::Own;
        into.holds("own values", own_values);
        let gate_apart = self.gate.is_none_or(|gate| gate.from == super::attention_gate::GateSource::Own);
        into.holds("queries, own keys and own values alone", own_values && gate_apart);
        into.bias("qkv", self.qkv_bias);
        into.bias("output", self.output_bias);
        into.role("sinks", self.sinks.as_ref());
        into.role("relative_bias", self.relative_bias.as_ref().map(|bias| &bias.role));
        if let Some(bias) = &self.relative_bias {
            into.set("buckets", bias.buckets);
        }
        if let Some(norm) = &self.qk_norm {
            let shared = norm.over == QkNormOver::Head;
            into.norm("qk_norm", Some(&norm.norm));
            into.norm("key_norm", Some(&norm.key_norm).filter(|_| own_keys));
            into.set("q_norm", if shared { self.key_dim } else { self.heads * self.key_dim });
            into.set("k_norm", if shared { self.key_dim } else { self.kv_heads * self.key_dim });
        }
        if let Some(norm) = &self.v_norm {
            let shared = norm.over == QkNormOver::Head;
            into.norm("v_norm", Some(&norm.norm).filter(|_| own_keys));
            into.set("v_norm", if shared { self.value_dim } else { self.kv_heads * self.value_dim });
        }
        if let Some(rope) = &self.rope {
            rope.sizes(into);
        }
    }
}

/// Whether every key-value head serves as many query heads, and a gate fits the heads.
fn heads_fit(
    [heads, kv_heads]: [usize; 2],
    dims: [usize; 2],
    gate: Option<AttentionGateConfig>,
    at: &mut ResolveContext<'_>,
) -> Result<(), RecordedFault> {
    if !heads.is_multiple_of(kv_heads) {
        let message = format!("{kv_heads} key-value heads do not divide {heads} heads");
        return at.key_fault("attention.head_count_kv", message);
    }
    gate_fits(gate, dims, at)
}

/// The norms of queries and keys, and of values.
fn norms(
    of_keys: Option<Nested<QkNormOptions>>,
    of_values: Option<Nested<ValueNormOptions>>,
    at: &mut ResolveContext<'_>,
) -> Result<(Option<QkNormConfig>, Option<ValueNormConfig>), RecordedFault> {
    let of_keys = of_keys.map(|norm| resolve_qk_norm(norm.options, at)).transpose();
    let of_values = of_values.map(|norm| resolve_value_norm(norm.options, at)).transpose();
    Ok((of_keys?, of_values?))
}

/// What depends on the position of a query: the temperature of the scores, and the rope.
fn positions(
    temperature: Option<Nested<TemperatureOptions>>,
    rope: Option<Nested<RopeOptions>>,
    key_dim: usize,
    at: &mut ResolveContext<'_>,
) -> Result<(Option<TemperatureConfig>, Option<RopeConfig>), RecordedFault> {
    let temperature = temperature.map_or(Ok(None), |it| resolve_temperature(it.options, at));
    let rope = rope.map(|rope| resolve_rope(rope, key_dim, at)).transpose();
    Ok((temperature?, rope?))
}

/// What distance adds to the scores: linear or learned biases, not both.
fn distance_biases(
    alibi: Option<Nested<AlibiOptions>>,
    learned: Option<Nested<RelativeBiasOptions>>,
    mask: MaskKind,
    at: &mut ResolveContext<'_>,
) -> Result<(Option<f32>, Option<RelativeBiasConfig>), RecordedFault> {
    let sides = if mask == MaskKind::Bidirectional { 2 } else { 1 };
    let learned = learned.map(|it| resolve_relative_bias(it.options, sides, at)).transpose()?;
    let alibi = alibi.and_then(|alibi| alibi.options.max_bias.0);
    if alibi.is_some() && learned.is_some() {
        let message = "scores take one kind of distance bias; remove this one or `alibi`";
        return at.fault("relative_bias", message);
    }
    Ok((alibi, learned))
}

/// What multiplies q.k where the spec does not say it: `1 / sqrt(key_dim)`.
pub(super) fn usual_scale(key_dim: usize, at: &mut ResolveContext<'_>) -> f32 {
    let scale = (1.0 / (key_dim as f64).sqrt()) as f32;
    at.computed("scale", scale);
    scale
}

/// What values are in this layer, and whose keys and values it attends to.
fn sources(
    values: ValueOption,
    keys_of: Option<usize>,
    equal_dims: bool,
    at: &mut ResolveContext<'_>,
) -> Result<(ValueSource, Option<usize>), RecordedFault> {
    let values = match values {
        ValueOption::OwnOrKeys if !at.has("attn_v") && !at.has("attn_qkv") => ValueSource::Keys,
        ValueOption::Own | ValueOption::OwnOrKeys => ValueSource::Own,
    };
    let keys_of = keys_of.filter(|of| Some(*of) != at.layer());
    if values == ValueSource::Keys && !equal_dims && keys_of.is_none() {
        return at.fault("values", "keys cannot serve as values: their heads differ in size");
    }
    if let Some(of) = keys_of.filter(|of| at.layer().is_none_or(|layer| *of > layer)) {
        return at.fault("keys_of", format!("{of} is not an earlier layer"));
    }
    Ok((values, keys_of))
}

/// The temperature; a scale of 0 is none.
pub(super) fn resolve_temperature(
    options: TemperatureOptions,
    at: &mut ResolveContext<'_>,
) -> Result<Option<TemperatureConfig>, RecordedFault> {
    let TemperatureOptions { scale, length, offset } = options;
    if scale == 0.0 {
        return Ok(None);
    }
    let (length, offset) = (at.force(&length), at.force(&offset));
    let Positive(length) = length?;
    Ok(Some(TemperatureConfig { scale, length, offset: offset? }))
}

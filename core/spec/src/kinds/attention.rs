//! The mixer `attention`.

use super::rope::{RopeConfig, RopeOptions, RopeScaling, resolve_rope};
use crate::config::{BiasRule, Role};
use crate::kind::{
    Bits, Cap, Component, Definition, Family, Lazy, NormHere, NotBuiltIn, OneOrEach, Optional, Positive,
    Resolving, RoleDef, Sizes,
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
    /// Rotary positions; absent = positions do not enter.
    pub rope: Option<RopeConfig>,
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
        /// Role of the per-head sink logits.
        sinks: Option<Role> = Absent,
        /// Norm on queries and keys.
        qk_norm: Optional<QkNormOptions> = Absent,
        /// Norm on values.
        v_norm: Optional<ValueNormOptions> = Absent,
        /// Window of visible keys.
        window: Optional<WindowConfig> = Absent,
        /// Query temperature that grows with the position.
        temperature: Optional<TemperatureOptions> = Absent,
        /// Gate on the output: `{ from = own | interleaved-q, per = element | head, activation }`.
        gate: NotBuiltIn = Absent,
        /// Rotary positions; absent = positions do not enter.
        rope: Optional<RopeOptions> = Absent,
    }
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

names! {
    /// Which keys a query sees, apart from the window.
    pub enum MaskKind {
        /// Keys at or before the query.
        Causal = "causal",
        /// All keys.
        Bidirectional = "bidirectional",
    }
}

/// Norm on queries and keys (roles `attn_q_norm`, `attn_k_norm`).
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct QkNormConfig {
    /// What the mean runs over.
    pub over: QkNormOver,
    /// Where it is applied.
    pub at: QkNormAt,
    /// The norm.
    pub norm: Component,
}

options! {
    /// Norm on queries and keys (roles `attn_q_norm`, `attn_k_norm`).
    pub struct QkNormOptions {
        /// What the mean runs over; whether heads share a weight is seen from its shape.
        over: QkNormOver = Required => guarded,
        /// Where it is applied.
        at: QkNormAt = Required => guarded,
        /// The norm.
        norm: NormHere = Fields,
    }
}

/// Norm on values (role `attn_v_norm` where it has a weight).
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct ValueNormConfig {
    /// What the mean runs over.
    pub over: QkNormOver,
    /// The norm.
    pub norm: Component,
}

options! {
    /// Norm on values, before they are stored (role `attn_v_norm` where it has a weight).
    pub struct ValueNormOptions {
        /// What the mean runs over.
        over: QkNormOver = Name("head") => guarded,
        /// The norm.
        norm: NormHere = Fields,
    }
}

names! {
    /// What the mean of a QK-norm runs over.
    pub enum QkNormOver {
        /// One head.
        Head = "head",
        /// All heads of the projection together.
        AllHeads = "all-heads",
    }
}

names! {
    /// Where a QK-norm is applied.
    pub enum QkNormAt {
        /// Between projection and rope.
        BeforeRope = "before-rope",
        /// After rope.
        AfterRope = "after-rope",
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
        RoleDef::linear("attn_q", &["D", "heads*key_dim"], "Queries.").with_bias("qkv").in_form(QKV, "split"),
        RoleDef::linear("attn_k", &["D", "kv_heads*key_dim"], "Keys.").with_bias("qkv").in_form(QKV, "split"),
        RoleDef::linear("attn_v", &["D", "kv_heads*value_dim"], "Values.")
            .with_bias("qkv")
            .in_form(QKV, "split")
            .stored(Bits::More),
        RoleDef::linear(
            "attn_qkv",
            &["D", "heads*key_dim+kv_heads*key_dim+kv_heads*value_dim"],
            "Rows of queries, keys and values; the biases may stand apart.",
        )
        .with_bias("qkv")
        .in_form(QKV, "fused"),
        RoleDef::linear("attn_output", &["heads*value_dim", "D"], "The output projection.")
            .with_bias("output"),
        RoleDef::norm("attn_q_norm", &["q_norm"], "qk_norm", "Norm on queries."),
        RoleDef::norm("attn_k_norm", &["k_norm"], "qk_norm", "Norm on keys."),
        RoleDef::norm("attn_v_norm", &["v_norm"], "v_norm", "Norm on values."),
        RoleDef::values("attn_sinks", &["heads"], "A logit per head that takes weight and gives no value.")
            .given_by("sinks"),
        RoleDef::values("rope_freqs", &["rope_dims/2"], "Divisors of the rotary frequencies.")
            .given_by("rope_freqs")
            .around(1.0)
            .of_model(),
        RoleDef::values(
            "rope_factors_long",
            &["rope_dims/2"],
            "LongRoPE divisors beyond the original context.",
        )
        .given_by("rope_factors_long")
        .around(1.0)
        .of_model(),
        RoleDef::values(
            "rope_factors_short",
            &["rope_dims/2"],
            "LongRoPE divisors up to the original context.",
        )
        .given_by("rope_factors_short")
        .around(1.0)
        .of_model(),
    ];

    fn resolve(options: AttentionOptions, at: &mut Resolving<'_, '_>) -> Option<Self> {
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
            sinks,
            qk_norm: Optional(qk_norm),
            v_norm: Optional(v_norm),
            window: Optional(window),
            temperature: Optional(temperature),
            gate: NotBuiltIn,
            rope: Optional(rope),
        } = options;
        if heads % kv_heads != 0 {
            let message = format!("{kv_heads} key-value heads do not divide {heads} heads");
            return at.key_fault("attention.head_count_kv", message);
        }
        let scale = scale.unwrap_or_else(|| {
            let scale = (1.0 / (key_dim as f64).sqrt()) as f32;
            at.computed("scale", scale);
            scale
        });
        let qk_norm = optional(qk_norm, |norm| resolve_qk_norm(norm.options, at).map(Some));
        let v_norm = optional(v_norm, |norm| resolve_value_norm(norm.options, at).map(Some));
        let temperature = optional(temperature, |it| resolve_temperature(it.options, at));
        let rope = optional(rope, |rope| resolve_rope(rope, key_dim, at).map(Some));
        let window = window.map(|window| window.options).filter(|window| window.size > 0);
        let (qk_norm, v_norm, temperature, rope) = (qk_norm?, v_norm?, temperature?, rope?);
        Some(AttentionConfig {
            heads,
            kv_heads,
            key_dim,
            value_dim,
            qkv_bias,
            output_bias,
            scale,
            mask,
            softcap,
            clamp,
            sinks,
            qk_norm,
            v_norm,
            window,
            temperature,
            rope,
        })
    }

    fn regime_limit(&self) -> Option<usize> {
        match self.rope.as_ref()?.scaling {
            RopeScaling::LongRope { original_context, .. } => Some(original_context),
            _ => None,
        }
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
        into.bias("qkv", self.qkv_bias);
        into.bias("output", self.output_bias);
        into.role("sinks", self.sinks.as_ref());
        if let Some(norm) = &self.qk_norm {
            let shared = norm.over == QkNormOver::Head;
            into.norm("qk_norm", Some(&norm.norm));
            into.set("q_norm", if shared { self.key_dim } else { self.heads * self.key_dim });
            into.set("k_norm", if shared { self.key_dim } else { self.kv_heads * self.key_dim });
        }
        if let Some(norm) = &self.v_norm {
            let shared = norm.over == QkNormOver::Head;
            into.norm("v_norm", Some(&norm.norm));
            into.set("v_norm", if shared { self.value_dim } else { self.kv_heads * self.value_dim });
        }
        if let Some(rope) = &self.rope {
            rope.sizes(into);
        }
    }
}

/// What an optional table comes to, if it is there.
#[allow(clippy::option_option)]
fn optional<T, U>(value: Option<T>, resolve: impl FnOnce(T) -> Option<Option<U>>) -> Option<Option<U>> {
    value.map_or(Some(None), resolve)
}

fn resolve_qk_norm(options: QkNormOptions, at: &mut Resolving<'_, '_>) -> Option<QkNormConfig> {
    let QkNormOptions { over, at: place, norm } = options;
    let norm = at.norm(&norm, &["attn_q_norm", "attn_k_norm"])?;
    Some(QkNormConfig { over, at: place, norm })
}

fn resolve_value_norm(options: ValueNormOptions, at: &mut Resolving<'_, '_>) -> Option<ValueNormConfig> {
    let ValueNormOptions { over, norm } = options;
    let norm = at.norm(&norm, &["attn_v_norm"])?;
    Some(ValueNormConfig { over, norm })
}

#[allow(clippy::option_option)]
fn resolve_temperature(
    options: TemperatureOptions,
    at: &mut Resolving<'_, '_>,
) -> Option<Option<TemperatureConfig>> {
    let TemperatureOptions { scale, length, offset } = options;
    if scale == 0.0 {
        return Some(None);
    }
    let (length, offset) = (at.force(&length), at.force(&offset));
    let Positive(length) = length?;
    Some(Some(TemperatureConfig { scale, length, offset: offset? }))
}

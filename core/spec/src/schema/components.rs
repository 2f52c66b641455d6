//! Components of the language as schema types: norm, branch, mixers, feed-forwards, output.

use super::places::{Name, Names, Number, Site, Truth};
use crate::config::{
    BiasRule, HeadKind, MaskKind, NormKind, QkNormAt, QkNormOver, Reads, RopePairs, RouterInput, RouterScore,
    WindowKind,
};
use crate::names::{
    ActivationName, ExpertForm, GroupScore, NormWeight, Pooling, RotaryKind, Rounding, RouterApply,
    RouterSelect, RouterWeights, ScalingKind, SharedGate,
};
use schemars::JsonSchema;
use std::collections::BTreeMap;

/// One table, or named cases of which exactly one holds in every layer.
#[derive(JsonSchema)]
#[schemars(untagged, inline)]
#[allow(dead_code)] // mirrors the language; only its schema is used
pub(super) enum Cases<T> {
    One(T),
    Named(BTreeMap<String, T>),
}

/// The norm used at every site.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[allow(dead_code)] // as Cases
pub(super) struct Norm {
    kind: Option<Name<NormKind>>,
    /// Added under the root.
    eps: Option<Number>,
    weight: Option<Name<NormWeight>>,
    /// Default: required for layer, none for rms.
    bias: Option<Name<BiasRule>>,
    /// Added to the stored weight; usually per source.
    offset: Option<Number>,
}

/// h = reads; h = pre(h); h = branch(h); h = post(h); x = x + scale * h; x = after(x).
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[allow(dead_code)] // as Cases
pub(super) struct Branch {
    pre: Option<Site>,
    post: Option<Site>,
    after: Option<Site>,
    /// What the branch reads (default stream).
    reads: Option<Name<Reads>>,
    /// Multiplies the branch output (default 1).
    scale: Option<Number>,
}

/// What mixes tokens.
#[derive(JsonSchema)]
#[schemars(untagged, inline)]
#[allow(dead_code, clippy::large_enum_variant)] // as Cases
pub(super) enum Mixer {
    Attention(Attention),
    LatentAttention(LatentAttention),
    Recurrent(Recurrent),
    None(NoComponent),
}

/// Attention.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[allow(dead_code)] // as Cases
pub(super) struct Attention {
    #[schemars(extend("enum" = ["attention"]))]
    kind: Option<String>,
    when: Option<Truth>,
    heads: Option<Number>,
    kv_heads: Option<Number>,
    key_dim: Option<Number>,
    value_dim: Option<Number>,
    bias: Option<Bias>,
    /// Multiplies q.k (default 1 / sqrt(key_dim)).
    scale: Option<Number>,
    mask: Option<Name<MaskKind>>,
    softcap: Option<Number>,
    clamp: Option<Number>,
    /// Role of the per-head sink logits.
    sinks: Option<String>,
    qk_norm: Option<Cases<QkNorm>>,
    v_norm: Option<serde_json::Value>,
    window: Option<Cases<Window>>,
    temperature: Option<Cases<Temperature>>,
    gate: Option<serde_json::Value>,
    rope: Option<Cases<Rope>>,
}

/// Latent attention; known, not built in.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[allow(dead_code)] // as Cases
pub(super) struct LatentAttention {
    #[schemars(extend("enum" = ["latent-attention"]))]
    kind: String,
    when: Option<Truth>,
    heads: Option<Number>,
    kv_heads: Option<Number>,
    key_dim: Option<Number>,
    value_dim: Option<Number>,
    bias: Option<Bias>,
    scale: Option<Number>,
    mask: Option<Name<MaskKind>>,
    softcap: Option<Number>,
    clamp: Option<Number>,
    sinks: Option<String>,
    qk_norm: Option<Cases<QkNorm>>,
    v_norm: Option<serde_json::Value>,
    window: Option<Cases<Window>>,
    temperature: Option<Cases<Temperature>>,
    gate: Option<serde_json::Value>,
    rope: Option<Cases<Rope>>,
    latent_norm: Option<serde_json::Value>,
}

/// Recurrent mixers; known, not built in.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[allow(dead_code)] // as Cases
pub(super) struct Recurrent {
    #[schemars(extend("enum" = ["mamba1", "mamba2", "gated-delta-net", "short-conv", "rwkv6", "rwkv7"]))]
    kind: String,
    when: Option<Truth>,
    inner_norm: Option<String>,
}

/// Nothing in this layer.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[allow(dead_code)] // as Cases
pub(super) struct NoComponent {
    #[schemars(extend("enum" = ["none"]))]
    kind: String,
    when: Option<Truth>,
}

/// One rule for all projections, or one each.
#[derive(JsonSchema)]
#[schemars(untagged, inline)]
#[allow(dead_code)] // as Cases
pub(super) enum Bias {
    All(Name<BiasRule>),
    Each(AttentionBias),
}

/// Bias rules of attention.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[allow(dead_code)] // as Cases
pub(super) struct AttentionBias {
    qkv: Option<Name<BiasRule>>,
    output: Option<Name<BiasRule>>,
}

/// Norm on queries and keys.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[allow(dead_code)] // as Cases
pub(super) struct QkNorm {
    over: Option<Name<QkNormOver>>,
    at: Option<Name<QkNormAt>>,
    kind: Option<Name<NormKind>>,
    weight: Option<Name<NormWeight>>,
    bias: Option<Name<BiasRule>>,
    eps: Option<Number>,
    offset: Option<Number>,
    when: Option<Truth>,
}

/// Window of visible keys; size 0 is none.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[allow(dead_code)] // as Cases
pub(super) struct Window {
    kind: Option<Name<WindowKind>>,
    size: Option<Number>,
    when: Option<Truth>,
}

/// q *= 1 + scale * ln(1 + floor((pos + offset) / length)).
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[allow(dead_code)] // as Cases
pub(super) struct Temperature {
    scale: Option<Number>,
    length: Option<Number>,
    offset: Option<Number>,
    when: Option<Truth>,
}

/// Rotary positions.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[allow(dead_code)] // as Cases
pub(super) struct Rope {
    kind: Option<Names<RotaryKind>>,
    /// Which elements form a pair; usually per source.
    pairs: Option<Name<RopePairs>>,
    /// Leading dims that rotate (default `rope.dimension_count`).
    dims: Option<Number>,
    base: Option<Number>,
    scaling: Option<Scaling>,
    when: Option<Truth>,
}

/// What scalings of the file are accepted.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[allow(dead_code)] // as Cases
pub(super) struct Scaling {
    accept: Option<Vec<Names<ScalingKind>>>,
    when: Option<Truth>,
    linear: Option<NoOptions>,
    yarn: Option<Yarn>,
    llama3: Option<NoOptions>,
    factors: Option<NoOptions>,
    longrope: Option<LongRope>,
}

/// Options of yarn.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[allow(dead_code)] // as Cases
pub(super) struct Yarn {
    /// The whole multiplier of cos and sin (default attn_factor * (1 + 0.1 ln factor)).
    magnitude: Option<Number>,
    round: Option<Name<Rounding>>,
}

/// Options of longrope.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[allow(dead_code)] // as Cases
pub(super) struct LongRope {
    /// The whole multiplier of cos and sin (default `rope.scaling.attn_factor`).
    magnitude: Option<Number>,
}

/// No options.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[allow(dead_code)] // as Cases
pub(super) struct NoOptions {}

/// What transforms each token.
#[derive(JsonSchema)]
#[schemars(untagged, inline)]
#[allow(dead_code, clippy::large_enum_variant)] // as Cases
pub(super) enum FeedForward {
    Dense(Dense),
    Moe(Moe),
    None(NoComponent),
}

/// A name, or a table for an activation with numbers of its own.
#[derive(JsonSchema)]
#[schemars(untagged, inline)]
#[allow(dead_code)] // as Cases
pub(super) enum Activation {
    Name(Name<ActivationName>),
    Table(ActivationTable),
}

/// An activation with numbers of its own.
#[derive(JsonSchema)]
#[schemars(inline)]
#[allow(dead_code)] // as Cases
pub(super) struct ActivationTable {
    kind: Names<ActivationName>,
    #[schemars(flatten)]
    numbers: BTreeMap<String, Number>,
}

/// Gated or plain feed-forward.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[allow(dead_code)] // as Cases
pub(super) struct Dense {
    #[schemars(extend("enum" = ["gated", "plain"]))]
    kind: Option<String>,
    when: Option<Truth>,
    activation: Option<Activation>,
    bias: Option<Name<BiasRule>>,
    inner_norm: Option<serde_json::Value>,
    limit: Option<Number>,
}

/// Mixture of experts.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[allow(dead_code)] // as Cases
pub(super) struct Moe {
    #[schemars(extend("enum" = ["moe"]))]
    kind: Option<String>,
    when: Option<Truth>,
    experts: Option<Expert>,
    shared: Option<Cases<SharedExpert>>,
    router: Option<Router>,
}

/// The routed experts.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[allow(dead_code)] // as Cases
pub(super) struct Expert {
    kind: Option<Name<ExpertForm>>,
    activation: Option<Activation>,
    bias: Option<Name<BiasRule>>,
}

/// The expert every token takes.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[allow(dead_code)] // as Cases
pub(super) struct SharedExpert {
    kind: Option<Name<ExpertForm>>,
    activation: Option<Activation>,
    bias: Option<Name<BiasRule>>,
    gate: Option<Name<SharedGate>>,
    when: Option<Truth>,
}

/// How experts are chosen and weighted.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[allow(dead_code)] // as Cases
pub(super) struct Router {
    score: Option<Name<RouterScore>>,
    bias: Option<Name<BiasRule>>,
    input: Option<Name<RouterInput>>,
    select: Option<Name<RouterSelect>>,
    select_bias: Option<Name<BiasRule>>,
    groups: Option<Groups>,
    /// No default: the most often wrong value.
    weights: Option<Name<RouterWeights>>,
    scale: Option<Number>,
    apply: Option<Name<RouterApply>>,
    /// Experts per token (default `expert_used_count`).
    top_k: Option<Number>,
}

/// Selection by groups of experts first; count 1 is none.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[allow(dead_code)] // as Cases
pub(super) struct Groups {
    count: Option<Number>,
    keep: Option<Number>,
    score: Option<Name<GroupScore>>,
}

/// From the last block to logits.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[allow(dead_code)] // as Cases
pub(super) struct Output {
    norm: Option<Site>,
    head: Option<Name<HeadKind>>,
    bias: Option<Name<BiasRule>>,
    /// Multiplies logits (default 1).
    scale: Option<Number>,
    /// 0 is none.
    softcap: Option<Number>,
    pooling: Option<Name<Pooling>>,
}

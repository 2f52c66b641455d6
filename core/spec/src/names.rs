//! Closed lists of names, one per name place of the language.

use crate::config::{
    Activation, BiasRule, HeadKind, MaskKind, NormKind, QkNormAt, QkNormOver, Reads, RopePairs, RouterInput,
    RouterScore, WindowKind,
};
use crate::spec::Layout;

/// A closed list of names and what they stand for.
pub(crate) trait NameSet: Copy + 'static {
    /// The names, in the order they are shown.
    const NAMES: &'static [(&'static str, Self)];

    /// The names alone.
    fn names() -> impl Iterator<Item = &'static str> {
        Self::NAMES.iter().map(|(name, _)| *name)
    }
}

impl NameSet for NormKind {
    const NAMES: &'static [(&'static str, Self)] = &[("rms", NormKind::Rms), ("layer", NormKind::Layer)];
}

impl NameSet for BiasRule {
    const NAMES: &'static [(&'static str, Self)] =
        &[("none", BiasRule::None), ("if-present", BiasRule::IfPresent), ("required", BiasRule::Required)];
}

impl NameSet for Reads {
    const NAMES: &'static [(&'static str, Self)] =
        &[("stream", Reads::Stream), ("block-input", Reads::BlockInput)];
}

impl NameSet for MaskKind {
    const NAMES: &'static [(&'static str, Self)] =
        &[("causal", MaskKind::Causal), ("bidirectional", MaskKind::Bidirectional)];
}

impl NameSet for WindowKind {
    const NAMES: &'static [(&'static str, Self)] = &[
        ("sliding", WindowKind::Sliding),
        ("chunked", WindowKind::Chunked),
        ("symmetric", WindowKind::Symmetric),
    ];
}

impl NameSet for QkNormOver {
    const NAMES: &'static [(&'static str, Self)] =
        &[("head", QkNormOver::Head), ("all-heads", QkNormOver::AllHeads)];
}

impl NameSet for QkNormAt {
    const NAMES: &'static [(&'static str, Self)] =
        &[("before-rope", QkNormAt::BeforeRope), ("after-rope", QkNormAt::AfterRope)];
}

impl NameSet for RopePairs {
    const NAMES: &'static [(&'static str, Self)] =
        &[("adjacent", RopePairs::Adjacent), ("halves", RopePairs::Halves)];
}

impl NameSet for RouterScore {
    const NAMES: &'static [(&'static str, Self)] = &[
        ("softmax", RouterScore::Softmax),
        ("sigmoid", RouterScore::Sigmoid),
        ("softmax-of-selected", RouterScore::SoftmaxOfSelected),
        ("sqrt-softplus", RouterScore::SqrtSoftplus),
    ];
}

impl NameSet for RouterInput {
    const NAMES: &'static [(&'static str, Self)] =
        &[("branch", RouterInput::Branch), ("block-input", RouterInput::BlockInput)];
}

impl NameSet for HeadKind {
    const NAMES: &'static [(&'static str, Self)] = &[
        ("own-or-tied", HeadKind::OwnOrTied),
        ("own", HeadKind::Own),
        ("tied", HeadKind::Tied),
        ("none", HeadKind::None),
    ];
}

impl NameSet for Layout {
    const NAMES: &'static [(&'static str, Self)] = &[
        ("transpose", Layout::Transpose),
        ("squeeze", Layout::Squeeze),
        ("negative-exp", Layout::NegativeExp),
        ("grouped-qkv", Layout::GroupedQkv),
        ("even-rows", Layout::EvenRows),
        ("odd-rows", Layout::OddRows),
        ("even-columns", Layout::EvenColumns),
        ("odd-columns", Layout::OddColumns),
        ("mxfp4", Layout::Mxfp4),
    ];
}

/// An activation of the language; some are known but not built in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ActivationName {
    /// Built in.
    BuiltIn(Activation),
    /// Known, with numbers of its own.
    NotBuiltIn(&'static str),
}

impl NameSet for ActivationName {
    const NAMES: &'static [(&'static str, Self)] = &[
        ("silu", ActivationName::BuiltIn(Activation::Silu)),
        ("gelu-tanh", ActivationName::BuiltIn(Activation::GeluTanh)),
        ("gelu-erf", ActivationName::BuiltIn(Activation::GeluErf)),
        ("relu", ActivationName::BuiltIn(Activation::Relu)),
        ("relu-squared", ActivationName::BuiltIn(Activation::ReluSquared)),
        ("swiglu-oai", ActivationName::NotBuiltIn("swiglu-oai")),
        ("xielu", ActivationName::NotBuiltIn("xielu")),
    ];
}

/// A rope scaling a spec may accept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScalingKind {
    Linear,
    Yarn,
    Llama3,
    Factors,
    LongRope,
}

impl NameSet for ScalingKind {
    const NAMES: &'static [(&'static str, Self)] = &[
        ("linear", ScalingKind::Linear),
        ("yarn", ScalingKind::Yarn),
        ("llama3", ScalingKind::Llama3),
        ("factors", ScalingKind::Factors),
        ("longrope", ScalingKind::LongRope),
    ];
}

impl ScalingKind {
    /// Its name in the language.
    pub(crate) fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, kind)| *kind == self).map_or("none", |(name, _)| name)
    }

    /// Keys it reads, apart from those of its default magnitude.
    pub(crate) fn keys(self) -> &'static [&'static str] {
        match self {
            ScalingKind::Linear | ScalingKind::Factors => &[],
            ScalingKind::Yarn => &[
                "rope.scaling.original_context_length",
                "rope.scaling.yarn_beta_fast",
                "rope.scaling.yarn_beta_slow",
                "rope.scaling.yarn_ext_factor",
                "rope.scaling.yarn_attn_factor",
            ],
            ScalingKind::Llama3 => &[
                "rope.scaling.low_freq_factor",
                "rope.scaling.high_freq_factor",
                "rope.scaling.original_context_length",
            ],
            ScalingKind::LongRope => &["rope.scaling.original_context_length"],
        }
    }
}

/// Rounding of YaRN's correction range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rounding {
    WholeDims,
    Exact,
}

impl NameSet for Rounding {
    const NAMES: &'static [(&'static str, Self)] =
        &[("whole-dims", Rounding::WholeDims), ("exact", Rounding::Exact)];
}

/// Whether a norm has a weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NormWeight {
    Own,
    None,
}

impl NameSet for NormWeight {
    const NAMES: &'static [(&'static str, Self)] = &[("own", NormWeight::Own), ("none", NormWeight::None)];
}

/// What the weights of the chosen experts are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RouterWeights {
    SumToOne,
    AsScored,
}

impl NameSet for RouterWeights {
    const NAMES: &'static [(&'static str, Self)] =
        &[("sum-to-one", RouterWeights::SumToOne), ("as-scored", RouterWeights::AsScored)];
}

/// What experts are selected by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RouterSelect {
    Scores,
    Logits,
}

impl NameSet for RouterSelect {
    const NAMES: &'static [(&'static str, Self)] =
        &[("scores", RouterSelect::Scores), ("logits", RouterSelect::Logits)];
}

/// Where the router's weight is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RouterApply {
    ToOutput,
    ToInput,
}

impl NameSet for RouterApply {
    const NAMES: &'static [(&'static str, Self)] =
        &[("to-output", RouterApply::ToOutput), ("to-input", RouterApply::ToInput)];
}

/// How a group of experts is scored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GroupScore {
    Best,
    SumOfBestTwo,
}

impl NameSet for GroupScore {
    const NAMES: &'static [(&'static str, Self)] =
        &[("best", GroupScore::Best), ("sum-of-best-two", GroupScore::SumOfBestTwo)];
}

/// Whether a shared expert has a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SharedGate {
    None,
    Sigmoid,
}

impl NameSet for SharedGate {
    const NAMES: &'static [(&'static str, Self)] =
        &[("none", SharedGate::None), ("sigmoid", SharedGate::Sigmoid)];
}

/// How an encoder's rows become one vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pooling {
    None,
    Mean,
    First,
    Last,
}

impl NameSet for Pooling {
    const NAMES: &'static [(&'static str, Self)] = &[
        ("none", Pooling::None),
        ("mean", Pooling::Mean),
        ("first", Pooling::First),
        ("last", Pooling::Last),
    ];
}

/// The form of an expert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExpertForm {
    Gated,
    Plain,
}

impl NameSet for ExpertForm {
    const NAMES: &'static [(&'static str, Self)] =
        &[("gated", ExpertForm::Gated), ("plain", ExpertForm::Plain)];
}

/// Which reference decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reference;

impl NameSet for Reference {
    const NAMES: &'static [(&'static str, Self)] =
        &[("hf", Reference), ("llama.cpp", Reference), ("paper", Reference)];
}

/// Kind of a token mixer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MixerKind {
    Attention,
    None,
    NotBuiltIn(&'static str),
}

impl NameSet for MixerKind {
    const NAMES: &'static [(&'static str, Self)] = &[
        ("attention", MixerKind::Attention),
        ("none", MixerKind::None),
        ("latent-attention", MixerKind::NotBuiltIn("latent-attention")),
        ("mamba1", MixerKind::NotBuiltIn("mamba1")),
        ("mamba2", MixerKind::NotBuiltIn("mamba2")),
        ("gated-delta-net", MixerKind::NotBuiltIn("gated-delta-net")),
        ("short-conv", MixerKind::NotBuiltIn("short-conv")),
        ("rwkv6", MixerKind::NotBuiltIn("rwkv6")),
        ("rwkv7", MixerKind::NotBuiltIn("rwkv7")),
    ];
}

impl MixerKind {
    /// Keys a kind reads that no spec repeats.
    pub(crate) fn keys(name: &str) -> &'static [&'static str] {
        match name {
            "latent-attention" => &["attention.q_lora_rank", "attention.kv_lora_rank"],
            "mamba1" => &["ssm.conv_kernel", "ssm.inner_size", "ssm.state_size", "ssm.time_step_rank"],
            _ => &[],
        }
    }
}

/// Kind of a feed-forward.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FeedForwardKind {
    Gated,
    Plain,
    Moe,
    None,
}

impl NameSet for FeedForwardKind {
    const NAMES: &'static [(&'static str, Self)] = &[
        ("gated", FeedForwardKind::Gated),
        ("plain", FeedForwardKind::Plain),
        ("moe", FeedForwardKind::Moe),
        ("none", FeedForwardKind::None),
    ];
}

/// Kind of a rope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RotaryKind;

impl NameSet for RotaryKind {
    const NAMES: &'static [(&'static str, Self)] = &[("rotary", RotaryKind)];
}

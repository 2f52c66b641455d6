//! A spec as written: what the decoder makes of the TOML tree and the resolver reads.

use crate::config::{
    BiasRule, HeadKind, MaskKind, NormKind, QkNormAt, QkNormOver, Reads, Role, RopePairs, RouterInput,
    RouterScore, WindowKind,
};
use crate::expression::Expression;
use crate::fault::Fault;
use crate::names::{
    ActivationName, ExpertForm, GroupScore, NormWeight, Pooling, Rounding, RouterApply, RouterSelect,
    RouterWeights, ScalingKind, SharedGate,
};
use crate::tree::Place;

/// A value that may differ between source formats.
#[derive(Clone, Debug)]
pub(crate) enum BySource<T> {
    Same(T),
    Each { gguf: T, hf: T },
}

/// A field: its value, where it was written, and its dotted path.
#[derive(Clone, Debug)]
pub(crate) struct Field<T> {
    pub(crate) place: Place,
    pub(crate) path: String,
    pub(crate) value: T,
}

/// A number or the expression that gives it.
#[derive(Clone, Debug)]
pub(crate) enum Scalar {
    Literal(f64),
    Expression(Expression),
}

/// A number, perhaps per source.
pub(crate) type Number = Field<BySource<Scalar>>;

/// A truth or the expression that gives it.
#[derive(Clone, Debug)]
pub(crate) enum Condition {
    Literal(bool),
    Expression(Expression),
}

/// A truth.
pub(crate) type Truth = Field<Condition>;

/// A name, perhaps per source, or chosen by a value of the file.
#[derive(Clone, Debug)]
pub(crate) enum Choice<T> {
    Given(BySource<(&'static str, T)>),
    By { by: Expression, answers: Vec<(String, &'static str, T)> },
}

/// A name place.
pub(crate) type Name<T> = Field<Choice<T>>;

/// A component: one, or named cases of which exactly one holds in every layer.
#[derive(Clone, Debug)]
pub(crate) struct Cases<T> {
    pub(crate) place: Place,
    pub(crate) path: String,
    /// Whether these are named cases; otherwise there is exactly one, without a name.
    pub(crate) named: bool,
    pub(crate) cases: Vec<Case<T>>,
}

/// One case of a component.
#[derive(Clone, Debug)]
pub(crate) struct Case<T> {
    pub(crate) name: String,
    pub(crate) when: Option<Truth>,
    pub(crate) component: T,
}

/// A spec without its names and its Hugging Face side.
#[derive(Clone, Debug)]
pub(crate) struct Body {
    pub(crate) lets: Vec<Let>,
    pub(crate) count: Option<Number>,
    pub(crate) embedding: Embedding,
    pub(crate) norm: Option<Norm>,
    pub(crate) mixer_branch: Branch,
    pub(crate) feed_forward_branch: Branch,
    pub(crate) mixer: Cases<Mixer>,
    pub(crate) feed_forward: Cases<FeedForward>,
    pub(crate) output: Output,
    pub(crate) checks: Vec<Check>,
    pub(crate) gguf: Gguf,
    pub(crate) adapter_order: Vec<Role>,
    pub(crate) pre: Option<String>,
    pub(crate) end: Vec<String>,
    pub(crate) chat_fallback: Option<String>,
}

/// A named expression.
#[derive(Clone, Debug)]
pub(crate) struct Let {
    pub(crate) name: String,
    pub(crate) place: Place,
    pub(crate) value: Scalar,
}

/// `[embedding]`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Embedding {
    pub(crate) scale: Option<Number>,
    pub(crate) norm: Option<Site>,
    pub(crate) positions: Option<Role>,
    pub(crate) token_types: Option<Role>,
}

/// `[norm]`.
#[derive(Clone, Debug)]
pub(crate) struct Norm {
    pub(crate) kind: Name<NormKind>,
    pub(crate) eps: Number,
    pub(crate) weight: Option<Name<NormWeight>>,
    pub(crate) bias: Option<Name<BiasRule>>,
    pub(crate) offset: Option<Number>,
}

/// What a site or a QK-norm says otherwise than `[norm]`.
#[derive(Clone, Debug, Default)]
pub(crate) struct NormOverride {
    pub(crate) kind: Option<Name<NormKind>>,
    pub(crate) eps: Option<Number>,
    pub(crate) weight: Option<Name<NormWeight>>,
    pub(crate) bias: Option<Name<BiasRule>>,
    pub(crate) offset: Option<Number>,
}

/// A place where a norm is applied.
#[derive(Clone, Debug)]
pub(crate) struct Site {
    pub(crate) place: Place,
    pub(crate) path: String,
    /// The first that exists is taken.
    pub(crate) roles: Vec<Role>,
    pub(crate) norm: NormOverride,
    pub(crate) when: Option<Truth>,
}

/// One branch of `[block]`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Branch {
    pub(crate) pre: Option<Site>,
    pub(crate) post: Option<Site>,
    pub(crate) after: Option<Site>,
    pub(crate) reads: Option<Name<Reads>>,
    pub(crate) scale: Option<Number>,
}

/// `[mixer]`.
#[derive(Clone, Debug)]
pub(crate) enum Mixer {
    Attention(Box<Attention>),
    None,
    /// Known to the language, not built in.
    NotBuiltIn {
        kind: &'static str,
        fault: Fault,
    },
}

/// Attention.
#[derive(Clone, Debug)]
pub(crate) struct Attention {
    pub(crate) path: String,
    pub(crate) heads: Option<Number>,
    pub(crate) kv_heads: Option<Number>,
    pub(crate) key_dim: Option<Number>,
    pub(crate) value_dim: Option<Number>,
    pub(crate) qkv_bias: Option<Name<BiasRule>>,
    pub(crate) output_bias: Option<Name<BiasRule>>,
    pub(crate) scale: Option<Number>,
    pub(crate) mask: Option<Name<MaskKind>>,
    pub(crate) softcap: Option<Number>,
    pub(crate) clamp: Option<Number>,
    pub(crate) sinks: Option<Role>,
    pub(crate) qk_norm: Option<Cases<QkNorm>>,
    pub(crate) window: Option<Cases<Window>>,
    pub(crate) temperature: Option<Cases<Temperature>>,
    pub(crate) rope: Option<Cases<Rope>>,
    /// Options that are known but not built in.
    pub(crate) not_built_in: Vec<Fault>,
}

/// `qk_norm`.
#[derive(Clone, Debug)]
pub(crate) struct QkNorm {
    pub(crate) place: Place,
    pub(crate) path: String,
    pub(crate) over: Name<QkNormOver>,
    pub(crate) at: Name<QkNormAt>,
    pub(crate) norm: NormOverride,
}

/// `window`.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    pub(crate) kind: Name<WindowKind>,
    pub(crate) size: Number,
}

/// `temperature`.
#[derive(Clone, Debug)]
pub(crate) struct Temperature {
    pub(crate) scale: Number,
    pub(crate) length: Number,
    pub(crate) offset: Number,
}

/// `rope`.
#[derive(Clone, Debug)]
pub(crate) struct Rope {
    pub(crate) place: Place,
    pub(crate) path: String,
    pub(crate) pairs: Name<RopePairs>,
    pub(crate) dims: Option<Number>,
    pub(crate) base: Number,
    pub(crate) scaling: Option<Scaling>,
}

/// `rope.scaling`.
#[derive(Clone, Debug)]
pub(crate) struct Scaling {
    pub(crate) accept: Vec<ScalingKind>,
    pub(crate) when: Option<Truth>,
    pub(crate) yarn_magnitude: Option<Number>,
    pub(crate) yarn_round: Option<Name<Rounding>>,
    pub(crate) longrope_magnitude: Option<Number>,
}

/// `[feed_forward]`.
#[derive(Clone, Debug)]
pub(crate) enum FeedForward {
    Gated(Dense),
    Plain(Dense),
    Moe(Box<Moe>),
    None,
}

/// Options of `gated` and `plain`.
#[derive(Clone, Debug)]
pub(crate) struct Dense {
    pub(crate) activation: Name<ActivationName>,
    pub(crate) bias: Option<Name<BiasRule>>,
    /// Options that are known but not built in.
    pub(crate) not_built_in: Vec<Fault>,
}

/// Mixture of experts.
#[derive(Clone, Debug)]
pub(crate) struct Moe {
    pub(crate) experts: Expert,
    pub(crate) shared: Option<Cases<SharedExpert>>,
    pub(crate) router: Router,
}

/// An expert.
#[derive(Clone, Debug)]
pub(crate) struct Expert {
    pub(crate) form: Name<ExpertForm>,
    pub(crate) activation: Name<ActivationName>,
    pub(crate) bias: Option<Name<BiasRule>>,
}

/// The shared expert.
#[derive(Clone, Debug)]
pub(crate) struct SharedExpert {
    pub(crate) expert: Expert,
    pub(crate) gate: Option<Name<SharedGate>>,
}

/// The router.
#[derive(Clone, Debug)]
pub(crate) struct Router {
    pub(crate) place: Place,
    pub(crate) path: String,
    pub(crate) score: Name<RouterScore>,
    pub(crate) bias: Option<Name<BiasRule>>,
    pub(crate) input: Option<Name<RouterInput>>,
    pub(crate) select: Option<Name<RouterSelect>>,
    pub(crate) select_bias: Option<Name<BiasRule>>,
    pub(crate) groups: Option<Groups>,
    pub(crate) weights: Option<Name<RouterWeights>>,
    pub(crate) scale: Option<Number>,
    pub(crate) apply: Option<Name<RouterApply>>,
    pub(crate) top_k: Option<Number>,
}

/// `router.groups`.
#[derive(Clone, Debug)]
pub(crate) struct Groups {
    pub(crate) count: Number,
    pub(crate) keep: Number,
    pub(crate) score: Name<GroupScore>,
}

/// `[output]`.
#[derive(Clone, Debug)]
pub(crate) struct Output {
    pub(crate) norm: Option<Site>,
    pub(crate) head: Name<HeadKind>,
    pub(crate) bias: Option<Name<BiasRule>>,
    pub(crate) scale: Option<Number>,
    pub(crate) softcap: Option<Number>,
    pub(crate) pooling: Option<Name<Pooling>>,
}

/// One line of `[check]`.
#[derive(Clone, Debug)]
pub(crate) struct Check {
    pub(crate) place: Place,
    pub(crate) expression: Expression,
    pub(crate) message: String,
}

/// `[gguf]`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gguf {
    /// Role and the name it is stored under.
    pub(crate) tensors: Vec<(Role, String)>,
    /// Globs and reasons.
    pub(crate) ignore_tensors: Vec<(String, String)>,
    /// Globs and reasons.
    pub(crate) ignore_keys: Vec<(String, String)>,
}

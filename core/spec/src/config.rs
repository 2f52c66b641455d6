//! [`ModelConfig`]: what an architecture spec means for one file, every number known, layer by layer.
//!
//! Produced by `ArchSpec::resolve`; consumed by the assembler. No expression, default or choice is left in it.

use std::collections::BTreeMap;

/// A role: the GGUF tensor name without `blk.N.` and suffix, e.g. `attn_q`. A role written with its suffix
/// (`exp_probs_b.bias`) names exactly that tensor.
pub type Role = String;

/// A resolved model: what to build, in which order, with which numbers.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct ModelConfig {
    /// Id of the spec, e.g. `qwen3`.
    pub architecture: String,
    /// Width of the residual stream, in elements.
    pub embedding_length: usize,
    /// Trained context in tokens, if the file states one.
    pub context_length: Option<usize>,
    /// How token ids become rows.
    pub embedding: EmbeddingConfig,
    /// Blocks that are run, first to last.
    pub layers: Vec<LayerConfig>,
    /// From the last block to logits.
    pub output: OutputConfig,
    /// What the spec adds to the file's tokenizer.
    pub tokenizer: TokenizerConfig,
    /// Chat template used when the file has none.
    pub chat_fallback: Option<String>,
    /// Roles of a block in the order HF registers them (X-LoRA numbers layers so).
    pub adapter_order: Vec<Role>,
    /// Size hints of the file, by canonical key: shown, never trusted (shapes win).
    pub hints: BTreeMap<String, f64>,
}

/// The token embedding.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct EmbeddingConfig {
    /// Multiplies every embedded row (1 = none).
    pub scale: f32,
    /// Norm applied to the embedded rows.
    pub norm: Option<NormSite>,
    /// Role of learned absolute positions, `[context, D]`.
    pub positions: Option<Role>,
    /// Role of token types; row 0 is added to every token.
    pub token_types: Option<Role>,
}

/// One block.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct LayerConfig {
    /// 0-based index, as in `blk.N`.
    pub index: usize,
    /// What mixes tokens.
    pub mixer: MixerConfig,
    /// How the mixer is attached to the residual stream.
    pub mixer_branch: BranchConfig,
    /// What transforms each token.
    pub feed_forward: FeedForwardConfig,
    /// How the feed-forward is attached to the residual stream.
    pub feed_forward_branch: BranchConfig,
}

/// `h = reads; h = pre(h); h = branch(h); h = post(h); x = x + scale * h; x = after(x)`.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct BranchConfig {
    /// Norm before the branch.
    pub pre: Option<NormSite>,
    /// Norm on the branch output.
    pub post: Option<NormSite>,
    /// Norm on the stream after the branch was added.
    pub after: Option<NormSite>,
    /// What the branch reads.
    pub reads: Reads,
    /// Multiplies the branch output before it is added.
    pub scale: f32,
}

/// What a branch reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reads {
    /// The residual stream as it stands.
    Stream,
    /// The input of the whole block (parallel blocks).
    BlockInput,
}

/// A place where a norm is applied, with everything it needs.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct NormSite {
    /// Role of the weight (and bias); the site's name even where there is no weight.
    pub role: Role,
    /// The norm.
    pub norm: NormConfig,
}

/// A norm.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct NormConfig {
    /// RMS or layer norm.
    pub kind: NormKind,
    /// Added under the root.
    pub eps: f32,
    /// Whether it has a weight.
    pub weight: bool,
    /// Whether it has a bias (`if-present` is already decided).
    pub bias: bool,
    /// Added to the stored weight (0 for GGUF).
    pub offset: f32,
}

/// Which mean a norm removes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum NormKind {
    /// Root mean square (Zhang and Sennrich, 2019).
    Rms,
    /// Mean and variance (Ba et al., 2016).
    Layer,
}

/// The token mixer of a layer.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum MixerConfig {
    /// Causal or bidirectional attention over cached keys and values.
    Attention(Box<AttentionConfig>),
    /// No mixer in this layer.
    None,
}

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
    /// Window of visible keys.
    pub window: Option<WindowConfig>,
    /// Query temperature that grows with the position.
    pub temperature: Option<TemperatureConfig>,
    /// Rotary positions; absent = positions do not enter.
    pub rope: Option<RopeConfig>,
}

/// Whether a linear has a bias.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum BiasRule {
    /// A bias in the file is an unclaimed tensor.
    None,
    /// Taken where the file has it.
    IfPresent,
    /// Missing is an error.
    Required,
}

/// Mask of attention scores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum MaskKind {
    /// Keys at or before the query.
    Causal,
    /// All keys.
    Bidirectional,
}

/// Norm on queries and keys (roles `attn_q_norm`, `attn_k_norm`).
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct QkNormConfig {
    /// What the mean runs over.
    pub over: QkNormOver,
    /// Where it is applied.
    pub at: QkNormAt,
    /// The norm.
    pub norm: NormConfig,
}

/// What the mean of a QK-norm runs over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum QkNormOver {
    /// One head.
    Head,
    /// All heads of the projection together.
    AllHeads,
}

/// Where a QK-norm is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum QkNormAt {
    /// Between projection and rope.
    BeforeRope,
    /// After rope.
    AfterRope,
}

/// Window of visible keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct WindowConfig {
    /// How the window lies.
    pub kind: WindowKind,
    /// Tokens; never 0.
    pub size: usize,
}

/// How a window lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum WindowKind {
    /// `0 <= q - k < size`.
    Sliding,
    /// Same `position / size`.
    Chunked,
    /// `|q - k| <= size / 2`.
    Symmetric,
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

/// Rotary positions (Su et al., 2021).
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct RopeConfig {
    /// Which elements form a pair, for the source format of this file.
    pub pairs: RopePairs,
    /// Leading elements of a head that rotate; even.
    pub dims: usize,
    /// Base of the geometric series of frequencies.
    pub base: f32,
    /// How frequencies are stretched.
    pub scaling: RopeScaling,
}

/// Which elements form a rotated pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RopePairs {
    /// `(2j, 2j + 1)`.
    Adjacent,
    /// `(j, j + dims / 2)`.
    Halves,
}

/// How rope frequencies are stretched.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum RopeScaling {
    /// Not at all.
    None,
    /// Divided by `factor`.
    Linear {
        /// Divisor of every frequency.
        factor: f32,
    },
    /// YaRN (Peng et al., 2023).
    Yarn {
        /// Divisor of the interpolated frequencies.
        factor: f32,
        /// Context the model was first trained with, in tokens.
        original_context: f32,
        /// Rotations above which a dimension is not interpolated.
        beta_fast: f32,
        /// Rotations below which a dimension is fully interpolated.
        beta_slow: f32,
        /// The whole multiplier of cos and sin.
        magnitude: f32,
        /// Whether the correction range is rounded to whole dimensions.
        whole_dims: bool,
    },
    /// Llama 3 formula from numbers (HF config only; a GGUF holds the tensor instead).
    Llama3 {
        /// Divisor of low frequencies.
        factor: f32,
        /// `low_freq_factor`.
        low: f32,
        /// `high_freq_factor`.
        high: f32,
        /// Context the model was first trained with, in tokens.
        original_context: f32,
    },
    /// Divisors in the tensor of this role, `[dims / 2]`.
    Factors {
        /// Role, `rope_freqs`.
        role: Role,
    },
    /// LongRoPE: one of two divisor tensors, by the sequence's rope regime.
    LongRope {
        /// Role of the divisors up to `original_context` tokens.
        short: Role,
        /// Role of the divisors beyond.
        long: Role,
        /// Tokens up to which the short divisors hold.
        original_context: usize,
        /// Multiplies cos and sin, in both regimes.
        magnitude: f32,
    },
}

/// The feed-forward of a layer.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum FeedForwardConfig {
    /// `down(act(gate(x)) * up(x))`; `ffn_up` of double width holds gate, then up.
    Gated {
        /// Activation of the gate.
        activation: Activation,
        /// Biases of the three linears.
        bias: BiasRule,
    },
    /// `down(act(up(x)))`.
    Plain {
        /// Activation between the two linears.
        activation: Activation,
        /// Biases of the two linears.
        bias: BiasRule,
    },
    /// Mixture of experts.
    Moe(Box<MoeConfig>),
    /// No feed-forward in this layer.
    None,
}

/// Pointwise activation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Activation {
    /// `x * sigmoid(x)`.
    Silu,
    /// GELU, tanh form (`gelu_new`, `gelu_pytorch_tanh`).
    GeluTanh,
    /// GELU, erf form.
    GeluErf,
    /// `max(x, 0)`.
    Relu,
    /// `max(x, 0)^2`.
    ReluSquared,
}

/// Mixture of experts.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct MoeConfig {
    /// The routed experts (roles `ffn_*_exps`).
    pub experts: ExpertConfig,
    /// The expert every token takes (roles `ffn_*_shexp`).
    pub shared: Option<SharedExpertConfig>,
    /// How experts are chosen and weighted.
    pub router: RouterConfig,
}

/// Shape of an expert.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct ExpertConfig {
    /// Gated or plain.
    pub gated: bool,
    /// Activation inside.
    pub activation: Activation,
    /// Biases of the expert linears.
    pub bias: BiasRule,
}

/// The shared expert.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct SharedExpertConfig {
    /// Its shape.
    pub expert: ExpertConfig,
    /// Whether its output is multiplied by `sigmoid(ffn_gate_inp_shexp(x))`.
    pub sigmoid_gate: bool,
}

/// The router.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct RouterConfig {
    /// How logits become scores.
    pub score: RouterScore,
    /// Bias of the router's linear.
    pub bias: BiasRule,
    /// What the router reads.
    pub input: RouterInput,
    /// Whether experts are selected by logits instead of scores.
    pub select_by_logits: bool,
    /// Role of a bias added for the selection only.
    pub select_bias: Option<Role>,
    /// Selection by groups of experts first.
    pub groups: Option<RouterGroups>,
    /// Whether the chosen weights are divided by their sum.
    pub sum_to_one: bool,
    /// Multiplies the weights.
    pub scale: f32,
    /// Whether the weight multiplies the expert's input instead of its output.
    pub apply_to_input: bool,
    /// Experts per token.
    pub top_k: usize,
}

/// How router logits become scores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RouterScore {
    /// Softmax over all experts.
    Softmax,
    /// Sigmoid of each.
    Sigmoid,
    /// Softmax over the chosen ones.
    SoftmaxOfSelected,
    /// `sqrt(softplus(x))`.
    SqrtSoftplus,
}

/// What the router reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RouterInput {
    /// What the experts get.
    Branch,
    /// The raw input of the block.
    BlockInput,
}

/// Group-limited routing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct RouterGroups {
    /// Groups of consecutive experts.
    pub count: usize,
    /// Groups kept.
    pub keep: usize,
    /// Whether a group scores by the sum of its best two, else by its best.
    pub sum_of_best_two: bool,
}

/// From the last block to logits.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct OutputConfig {
    /// Norm before the head.
    pub norm: Option<NormSite>,
    /// Which matrix makes logits.
    pub head: HeadKind,
    /// Bias of the head (role `output`).
    pub bias: BiasRule,
    /// Multiplies logits (1 = none).
    pub scale: f32,
    /// `cap * tanh(x / cap)` on logits; absent = none.
    pub softcap: Option<f32>,
}

/// Which matrix makes logits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum HeadKind {
    /// `output` if the file has it, else the embedding.
    OwnOrTied,
    /// `output`, required.
    Own,
    /// The embedding.
    Tied,
    /// No head (encoders).
    None,
}

/// What the spec says about the tokenizer.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct TokenizerConfig {
    /// Pre-tokenizer used when the file names none.
    pub pre: Option<String>,
    /// Tokens that end a turn, added if the vocabulary has them.
    pub end: Vec<String>,
}

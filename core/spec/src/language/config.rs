//! [`ModelConfig`]: what an architecture spec means for one file, every number known, layer by layer.
//!
//! Produced by `ArchSpec::resolve`; consumed by the assembler. No expression, default or choice is left in it.

use crate::kind::formulas::as_name;
use crate::kind::{BiasRule, Component, NormSite, Role};
use crate::{names, options};
use menagerie_formulas::{
    BranchInput, ClassifierActivation, ClassifierScores, HeldStream, HiddenRow, JoinOrder, ParallelInput,
    Pooling,
};
use std::collections::BTreeMap;

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
    /// Blocks in the order in which they run; a block that runs several times is listed as often.
    pub layers: Vec<LayerConfig>,
    /// From the last block to logits.
    pub output: OutputConfig,
    /// The heads that predict further tokens, if they are requested ([`crate::ResolveInput::nextn`]). Each of several heads
    /// predicts the token after that of the head before it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nextn: Vec<NextnConfig>,
    /// What the spec adds to the file's tokenizer.
    pub tokenizer: TokenizerConfig,
    /// Chat template used when the file has none.
    pub chat_fallback: Option<String>,
    /// Roles of a block in the order HF registers them (X-LoRA numbers layers so).
    pub adapter_order: Vec<Role>,
    /// Size hints of the file, by canonical key: used for synthetic models; for a file, the shapes of its tensors
    /// decide.
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
    /// Additional input rows of each layer.
    pub per_layer: Option<PerLayerConfig>,
}

/// Additional input rows of each layer: `scale * (token_scale * per_layer_token_embd[id] + norm(projection_scale *
/// per_layer_model_proj(embedded)))`.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct PerLayerConfig {
    /// Elements of the row of a layer.
    pub width: usize,
    /// The number of layers with such rows.
    pub layers: usize,
    /// Multiplies the rows of tokens.
    pub token_scale: f32,
    /// Multiplies the projection of the embedded rows.
    pub projection_scale: f32,
    /// Norm on the projection, over the row of a layer.
    pub norm: Option<NormSite>,
    /// Multiplies the sum.
    pub scale: f32,
}

/// One block.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct LayerConfig {
    /// 0-based index, as in `blk.N`.
    pub index: usize,
    /// What mixes tokens; absent = no mixer in this layer.
    pub mixer: Option<Component>,
    /// How the mixer is attached to the residual stream.
    pub mixer_branch: BranchConfig,
    /// What transforms each token; absent = no feed-forward in this layer.
    pub feed_forward: Option<Component>,
    /// How the feed-forward is attached to the residual stream.
    pub feed_forward_branch: BranchConfig,
    /// A second feed-forward, whose output is added to the first one's.
    pub beside: Option<BesideConfig>,
    /// A third branch, after the feed-forward.
    pub last: Option<Component>,
    /// How the third branch is attached to the residual stream.
    pub last_branch: BranchConfig,
    /// Role of a number: the embedded rows times this number are added to the output of the block.
    pub embedding_scale: Option<Role>,
    /// Role of a number that multiplies the output of the block.
    pub output_scale: Option<Role>,
    /// Norm of the whole model on the output of the block: between two passes over the blocks.
    pub loop_norm: Option<NormSite>,
    /// For the first block of a run of one of two stacks: how the run begins.
    pub entry: Option<EntryConfig>,
}

/// How a run of one of two stacks begins: with the sum of the current stream and the held one.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct EntryConfig {
    /// Which of the two is held from here on.
    #[serde(serialize_with = "as_name")]
    pub holds: HeldStream,
    /// Role of the row of the whole model that replaces the held stream before the first run.
    pub start: Option<Role>,
}

impl ModelConfig {
    /// The number of blocks with tensors, however often each runs.
    pub fn blocks(&self) -> usize {
        self.layers.iter().map(|layer| layer.index + 1).max().unwrap_or(0)
    }
}

impl LayerConfig {
    /// Every norm on the stream and every component, in the order in which their tensors are used.
    pub fn parts(&self) -> (Vec<&NormSite>, Vec<&Component>) {
        let branches = [&self.mixer_branch, &self.feed_forward_branch, &self.last_branch];
        let sites =
            branches.into_iter().flat_map(|branch| [&branch.pre, &branch.post, &branch.after, &branch.again]);
        let mut sites: Vec<&NormSite> = sites.flatten().collect();
        let mut components: Vec<&Component> =
            [&self.mixer, &self.feed_forward, &self.last].into_iter().flatten().collect();
        if let Some(beside) = &self.beside {
            sites.extend([&beside.pre, &beside.post, &beside.first_post].into_iter().flatten());
            components.push(&beside.part);
        }
        (sites, components)
    }
}

/// `f = first_post(f); g = post(part(pre(reads))); f = factor * (f + g)`, where `f` is the output of the feed-forward.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct BesideConfig {
    /// The second feed-forward.
    pub part: Component,
    /// Its input.
    #[serde(serialize_with = "as_name")]
    pub reads: ParallelInput,
    /// Norm before it.
    pub pre: Option<NormSite>,
    /// Norm on its output.
    pub post: Option<NormSite>,
    /// Norm on the output of the first feed-forward.
    pub first_post: Option<NormSite>,
    /// Multiplies the sum.
    pub factor: f32,
}

/// `h = reads; h = pre(h); h = branch(h); h = post(h); x = x + scale * h; x = after(x)`, and with `again`, where `i` is the stream
/// before the branch was added: `x = again(x + i)`.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct BranchConfig {
    /// Norm before the branch.
    pub pre: Option<NormSite>,
    /// Norm on the branch output.
    pub post: Option<NormSite>,
    /// Norm on the stream after the branch was added.
    pub after: Option<NormSite>,
    /// Second norm after the branch: on the output of `after` plus the stream before the branch (Jina BERT for code).
    pub again: Option<NormSite>,
    /// Input of the branch.
    #[serde(serialize_with = "as_name")]
    pub reads: BranchInput,
    /// Multiplies the branch output before it is added.
    pub scale: f32,
}

/// From the last block to logits.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct OutputConfig {
    /// Norm before the head.
    pub norm: Option<NormSite>,
    /// The matrix that computes logits.
    pub head: HeadKind,
    /// Bias of the head (role `output`).
    pub bias: BiasRule,
    /// Multiplies logits (1 = none).
    pub scale: f32,
    /// `cap * tanh(x / cap)` on logits; absent = none.
    pub softcap: Option<f32>,
    /// Ids that are never generated; absent = none.
    pub suppress: Option<SuppressConfig>,
    /// How the rows of a text become one vector.
    #[serde(serialize_with = "as_name")]
    pub pooling: Pooling,
    /// Computes scores from the vector; absent = the vector is the output.
    pub classifier: Option<ClassifierConfig>,
    /// Linears applied to the vector, in this order; those that the file has.
    pub dense: Vec<Role>,
}

/// Scores of a pooled vector: `cls.output(norm(activation(cls(x))))`; the file decides which of the linears exist.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct ClassifierConfig {
    /// Between the two linears.
    #[serde(serialize_with = "as_name")]
    pub activation: ClassifierActivation,
    /// Norm after the activation.
    pub norm: Option<NormSite>,
    /// Function applied to the outputs.
    #[serde(serialize_with = "as_name")]
    pub scores: ClassifierScores,
}

options! {
    /// Ids that are never generated: their logits are the lowest finite number.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
    pub struct SuppressConfig {
        /// The first of them.
        first: usize = Required => guarded,
        /// How many.
        count: usize = Required => guarded,
    }
}

names! {
    /// The matrix that computes logits.
    pub enum HeadKind {
        /// `output` if the file has it, else the embedding.
        OwnOrTied = "own-or-tied",
        /// `output`, required.
        Own = "own",
        /// The embedding.
        Tied = "tied",
        /// No head (encoders).
        None = "none",
    }
}

/// A head that predicts the token after the next one, and its block.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct NextnConfig {
    /// Its block, whose index follows those of the blocks of the model.
    pub block: LayerConfig,
    /// Norm on the embedded token.
    pub embedding_norm: Option<NormSite>,
    /// Norm on the row of the model.
    pub hidden_norm: Option<NormSite>,
    /// Role of the projection, `[2 * D]` to `[D]`.
    pub projection: Role,
    /// The order of the two inputs of the projection.
    #[serde(serialize_with = "as_name")]
    pub order: JoinOrder,
    /// The row of the model that the head reads.
    #[serde(serialize_with = "as_name")]
    pub hidden: HiddenRow,
    /// The row of the head that takes the place of the model's when the head guesses another token.
    #[serde(serialize_with = "as_name")]
    pub repeats: HiddenRow,
    /// Role of its own token embedding; absent = the model's.
    pub embedding: Option<Role>,
    /// Its own norm before the logits; absent = the model's.
    pub norm: Option<NormSite>,
    /// Role of its own matrix for logits; absent = the model's.
    pub head: Option<Role>,
}

/// Settings of the spec for the tokenizer.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct TokenizerConfig {
    /// Pre-tokenizer used when the file names none.
    pub pre: Option<String>,
    /// Tokens that end a turn, added if the vocabulary has them.
    pub end: Vec<String>,
}

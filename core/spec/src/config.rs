//! [`ModelConfig`]: what an architecture spec means for one file, every number known, layer by layer.
//!
//! Produced by `ArchSpec::resolve`; consumed by the assembler. No expression, default or choice is left in it.

use crate::kind::Component;
use crate::names;
use std::collections::BTreeMap;

pub use crate::kinds::configs::*;

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
    /// Size hints of the file, by canonical key: what models are made up with; of a file, shapes win.
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
    /// What mixes tokens; absent = no mixer in this layer.
    pub mixer: Option<Component>,
    /// How the mixer is attached to the residual stream.
    pub mixer_branch: BranchConfig,
    /// What transforms each token; absent = no feed-forward in this layer.
    pub feed_forward: Option<Component>,
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

names! {
    /// What a branch reads.
    pub enum Reads {
        /// The residual stream as it stands.
        Stream = "stream",
        /// The input of the whole block (parallel blocks).
        BlockInput = "block-input",
    }
}

/// A place where a norm is applied, with everything it needs.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct NormSite {
    /// Role of the weight (and bias); the site's name even where there is no weight.
    pub role: Role,
    /// The norm.
    pub norm: Component,
}

names! {
    /// Whether a linear has a bias.
    pub enum BiasRule {
        /// A bias in the file is an unclaimed tensor.
        None = "none",
        /// Taken where the file has it.
        IfPresent = "if-present",
        /// Missing is an error.
        Required = "required",
    }
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
    /// How an encoder's rows become one vector.
    pub pooling: Pooling,
}

names! {
    /// Which matrix makes logits.
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

names! {
    /// How an encoder's rows become one vector.
    pub enum Pooling {
        /// They do not.
        None = "none",
        /// The mean of all rows.
        Mean = "mean",
        /// The first row.
        First = "first",
        /// The last row.
        Last = "last",
    }
}

/// What the spec says about the tokenizer.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct TokenizerConfig {
    /// Pre-tokenizer used when the file names none.
    pub pre: Option<String>,
    /// Tokens that end a turn, added if the vocabulary has them.
    pub end: Vec<String>,
}

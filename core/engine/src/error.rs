//! [`GenerateError`]: why a generation has no result; [`TextError`]: errors of tokenizers and templates.

use crate::sampling::SamplingError;
use menagerie_model::{KvType, ModelError};

/// An error of a tokenizer or chat template, with its causes.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct TextError(pub Box<dyn std::error::Error + Send + Sync>);

impl TextError {
    /// Wraps an error or a message.
    pub fn new(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self(error.into())
    }
}

/// A capability that a model does not have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MissingCapability {
    /// No tokenizer.
    #[error(
        "{model} cannot read or write text: {reason}; use a file with a tokenizer (`logits --tokens` and `bench` need none)"
    )]
    Tokenizer {
        /// The model.
        model: String,
        /// Why it is missing.
        reason: String,
    },
    /// No classifier.
    #[error(
        "{model} gives no scores: it is not a reranker, because its file has no classifier; use `embed` for its vectors"
    )]
    Classifier {
        /// The model.
        model: String,
    },
    /// No chat template.
    #[error(
        "{model} has no chat format: {reason}; use `run --raw` for plain continuation, or add a template (--chat-template FILE)"
    )]
    ChatTemplate {
        /// The model.
        model: String,
        /// Why it is missing.
        reason: String,
    },
}

/// Why a generation has no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GenerateError {
    /// The prompt is empty.
    #[error("the prompt is empty: there is no token to continue from; provide at least one")]
    EmptyPrompt,
    /// The prompt does not fit into the context.
    #[error(
        "the prompt has {tokens} tokens but the context holds {context}: shorten it by {}, or open the model with a \
         larger context (-c {})",
        .tokens - .context,
        .tokens.div_ceil(256).saturating_mul(256)
    )]
    PromptTooLong {
        /// Tokens of the prompt.
        tokens: usize,
        /// Tokens of the context.
        context: usize,
    },
    /// The prompt has more tokens than the model has learned positions.
    #[error(
        "the text has {tokens} tokens, and the model has learned positions for {positions}: no larger context helps; \
         shorten it by {}, or split it",
        .tokens.saturating_sub(*.positions)
    )]
    PastPositions {
        /// Tokens of the prompt.
        tokens: usize,
        /// Learned positions of the model.
        positions: usize,
    },
    /// The text is empty, so there is nothing to compute.
    #[error(
        "the text is empty: there is nothing to compute a vector or a score from; provide a text, or remove this one"
    )]
    EmptyText,
    /// The model does not have this token.
    #[error(
        "token id {id} (number {index} of the prompt, counted from 0) is past the vocabulary of {vocabulary} tokens: \
         the prompt was made for another model, or the ids are wrong"
    )]
    TokenOutOfRange {
        /// The id.
        id: u32,
        /// Its index in the prompt, from 0.
        index: usize,
        /// The size of the vocabulary.
        vocabulary: usize,
    },
    /// The options do not fit together.
    #[error("{0}")]
    Options(String),
    /// The caller cancelled before there was a result.
    #[error("cancelled")]
    Cancelled,
    /// The model does not have the requested capability.
    #[error(transparent)]
    Missing(#[from] MissingCapability),
    /// A sampling option is invalid, or a row of logits is unusable.
    #[error(transparent)]
    Sampling(#[from] SamplingError),
    /// The tokenizer or the chat template failed.
    #[error(transparent)]
    Text(#[from] TextError),
    /// A computed value is NaN or infinite, so the result would be wrong.
    #[error(
        "after position {position} value {column} of the row is {value}, so the result would be wrong; {}",
        not_finite_advice(*.kv_type)
    )]
    NotFinite {
        /// Position of the token, from 0.
        position: usize,
        /// Column of the row: the token id, for logits.
        column: usize,
        /// NaN or an infinity.
        value: f32,
        /// The type of cached keys and values.
        kv_type: KvType,
    },
    /// The model needs a prompt in one step, and the prompt is longer than a step.
    #[error(
        "the prompt has {tokens} tokens, but a step has at most {chunk}: layers of this model see later tokens, or \
         choose an expert for a whole prompt, so that it cannot be computed in chunks; allow larger steps (--chunk {tokens}), \
         shorten it, or let a mixture choose by token"
    )]
    Chunked {
        /// Tokens of the prompt.
        tokens: usize,
        /// The most rows of a step.
        chunk: usize,
    },
    /// The model sees later tokens, so it cannot continue a text.
    #[error("layers of this model see later tokens: it cannot continue a text; use it for embeddings")]
    LooksAhead,
    /// The states of the request were lost with a stage again and again while it was computed.
    #[error(
        "{fault}; the states of this request were lost {times} times in a row while it was computed, so it is not computed \
         again: it may be the reason that the stage ends. Look for the reason in the log of the stage, or send a shorter request"
    )]
    LostRepeatedly {
        /// How often.
        times: usize,
        /// The last fault.
        fault: String,
    },
    /// A step failed that the sequence shared with others.
    #[error("the step this sequence shared with others failed: {0}")]
    Together(String),
    /// A step produced another kind of rows than its caller expects.
    #[error("expected {expected} from a step, found {found} (a defect: please report it)")]
    Output {
        /// The expected kind.
        expected: &'static str,
        /// The kind that the step produced.
        found: &'static str,
    },
    /// The forward pass failed.
    #[error(transparent)]
    Model(ModelError),
}

impl GenerateError {
    /// The error of a sequence with too many tokens: a larger context helps only if the model has positions for it.
    pub(crate) fn too_long(tokens: usize, context: usize, learned_positions: Option<usize>) -> Self {
        match learned_positions {
            Some(positions) if positions <= context => Self::PastPositions { tokens, positions },
            _ => Self::PromptTooLong { tokens, context },
        }
    }
}

impl From<ModelError> for GenerateError {
    fn from(error: ModelError) -> Self {
        match error {
            ModelError::Cancelled => Self::Cancelled,
            other => Self::Model(other),
        }
    }
}

/// What to do about a value that is not finite.
fn not_finite_advice(kv_type: KvType) -> &'static str {
    match kv_type {
        KvType::F16 => {
            "keys or values past 65504 overflow an f16 cache: try --kv-type f32; if that does not help, try --exact and check \
             the file's checksum"
        }
        KvType::Q8_0 => {
            "keys or values past 8.3 million overflow a q8_0 cache: try --kv-type f32; if that does not help, try --exact and \
             check the file's checksum"
        }
        KvType::F32 => {
            "the weights may be damaged: check the file's checksum, and try --exact (quantized activations may overflow)"
        }
    }
}

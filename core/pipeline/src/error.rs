//! Errors of the pipeline: [`LoadError`] while a model is opened, [`GenerateError`] while it runs.

use crate::capability::MissingCapability;
use crate::memory::{MemoryEstimate, size};
use crate::sampling::SamplingError;
use gguf_file::GgufError;
use menagerie_assembly::AssemblyFaults;
use menagerie_kernels::KernelError;
use menagerie_model::ModelError;
use menagerie_registry::RegistryError;
use menagerie_spec::SpecFaults;

/// Why a model could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The file cannot be read.
    #[error(transparent)]
    File(#[from] menagerie_loaders::LoadError),
    /// Its architecture is not known or not usable.
    #[error("{file}: {source}")]
    Architecture {
        /// The file.
        file: String,
        /// Why.
        source: RegistryError,
    },
    /// The spec folders cannot be read.
    #[error(transparent)]
    Registry(RegistryError),
    /// The file and the spec of its architecture do not fit together.
    #[error("{0}")]
    Spec(SpecFaults),
    /// The tensors of the file are not those the architecture needs.
    #[error("{0}")]
    Tensors(AssemblyFaults),
    /// Threads or instruction set cannot be had.
    #[error(transparent)]
    Kernels(#[from] KernelError),
    /// It would not fit into memory.
    #[error("{file} needs {estimate}, but {} are free{}", size(.estimate.available.unwrap_or(0)), memory_advice(.estimate))]
    Memory {
        /// The file.
        file: String,
        /// What it needs and what there is.
        estimate: Box<MemoryEstimate>,
    },
    /// The state cannot be kept as asked.
    #[error("{file}: {source}")]
    State {
        /// The file.
        file: String,
        /// Why.
        source: ModelError,
    },
    /// The options do not make sense.
    #[error("{0}")]
    Options(String),
}

/// What to do where a model does not fit.
fn memory_advice(estimate: &MemoryEstimate) -> String {
    let fitting = estimate.fitting_context().map_or(0, |tokens| tokens / 256 * 256);
    if fitting >= 256 {
        return format!(
            ": ask for a smaller context (-c {fitting} fits), store keys and values smaller (--kv-type q8_0), or free memory"
        );
    }
    ": even the weights do not fit; use a smaller quantisation of the model, or a machine with more memory"
        .to_owned()
}

/// An error of a tokenizer or chat template, with its causes.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct TextError(pub Box<dyn std::error::Error + Send + Sync>);

impl TextError {
    /// Wraps an error of the loaders, or a message.
    pub fn new(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self(error.into())
    }
}

/// Why a generation ended without a result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GenerateError {
    /// Nothing to continue.
    #[error("the prompt is empty: there is no token to continue from")]
    EmptyPrompt,
    /// The prompt does not fit.
    #[error(
        "the prompt has {tokens} tokens but the context holds {context}: shorten it by {}, or open the model with a \
         larger context (-c {})",
        .tokens - .context,
        .tokens.next_multiple_of(256)
    )]
    PromptTooLong {
        /// Tokens of the prompt.
        tokens: usize,
        /// Tokens the context holds.
        context: usize,
    },
    /// A token that the model does not have.
    #[error(
        "token id {id} (number {index} of the prompt, counted from 0) is past the vocabulary of {vocabulary} tokens: \
         the prompt was made for another model, or the ids are wrong"
    )]
    TokenOutOfRange {
        /// The id.
        id: u32,
        /// Its place in the prompt, from 0.
        index: usize,
        /// Tokens of the vocabulary.
        vocabulary: usize,
    },
    /// The options do not fit together.
    #[error("{0}")]
    Options(String),
    /// The caller asked to stop before there was a result.
    #[error("cancelled")]
    Cancelled,
    /// The model cannot do what was asked.
    #[error(transparent)]
    Missing(#[from] MissingCapability),
    /// A sampling option or a row of logits is not usable.
    #[error(transparent)]
    Sampling(#[from] SamplingError),
    /// A tokenizer or chat template refused.
    #[error(transparent)]
    Text(#[from] TextError),
    /// The model file changed or vanished while it was mapped.
    #[error(transparent)]
    File(#[from] GgufError),
    /// The forward failed.
    #[error(transparent)]
    Model(ModelError),
}

impl From<ModelError> for GenerateError {
    fn from(error: ModelError) -> Self {
        match error {
            ModelError::Cancelled => Self::Cancelled,
            other => Self::Model(other),
        }
    }
}

impl From<candle_core::Error> for GenerateError {
    fn from(error: candle_core::Error) -> Self {
        Self::Model(ModelError::from(error))
    }
}

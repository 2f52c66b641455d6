//! Why a folder cannot become a file.

use gguf_file::GgufError;
use menagerie_loaders::LoadError;
use menagerie_model::ModelError;
use menagerie_quantize::QuantizeError;
use menagerie_spec::SpecFaults;

/// An error of a conversion, with what to do next.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConvertError {
    /// The folder holds something that a GGUF file of its architecture cannot say.
    #[error(
        "{folder}: {what}; a GGUF file would be another model, so that none is written: run the folder itself"
    )]
    Lost {
        /// The folder.
        folder: String,
        /// What it is.
        what: String,
    },
    /// A tensor cannot be written.
    #[error("{folder}: tensor \"{tensor}\": {problem}")]
    Tensor {
        /// The folder.
        folder: String,
        /// The tensor, as the file would call it.
        tensor: String,
        /// What is wrong.
        problem: String,
    },
    /// The type of the weights is none that can be written.
    #[error("the type {name:?} is none of f32, f16, bf16, q8_0 and the types of `quantize`")]
    Type {
        /// The name that was given.
        name: String,
    },
    /// The file that would be written does not fit the spec.
    #[error(transparent)]
    Unreadable(SpecFaults),
    /// It was stopped.
    #[error("stopped; no file was written")]
    Stopped,
    /// The tokenizer cannot be written.
    #[error(transparent)]
    Text(#[from] LoadError),
    /// The file cannot be written.
    #[error(transparent)]
    Gguf(#[from] GgufError),
    /// Weights cannot be read.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// Weights cannot be encoded.
    #[error(transparent)]
    Quantize(#[from] QuantizeError),
}

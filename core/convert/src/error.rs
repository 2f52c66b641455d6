//! [`ConvertError`].

use gguf_file::GgufError;
use menagerie_loaders::LoadError;
use menagerie_model::ModelError;
use menagerie_quantize::QuantizeError;
use menagerie_spec::SpecFaults;

/// An error of a conversion, with what to do next.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConvertError {
    /// The folder contains something that a GGUF file of its architecture cannot express.
    #[error(
        "{folder}: {what}; a GGUF file would be a different model, so none is written; run the folder itself"
    )]
    Lost {
        /// The folder.
        folder: String,
        /// What cannot be expressed.
        what: String,
    },
    /// A tensor cannot be written.
    #[error("{folder}: tensor \"{tensor}\": {problem}")]
    Tensor {
        /// The folder.
        folder: String,
        /// The name of the tensor in the file.
        tensor: String,
        /// What is wrong.
        problem: String,
    },
    /// An unknown type of weights.
    #[error("expected the type f32, f16, bf16, q8_0 or a type of `menagerie quantize`, found {name:?}")]
    Type {
        /// The given name.
        name: String,
    },
    /// The planned file does not match the spec.
    #[error(transparent)]
    Unreadable(SpecFaults),
    /// The caller stopped the conversion.
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

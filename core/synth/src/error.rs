//! [`SynthError`].

use gguf_file::GgufError;
use menagerie_quantize::QuantizeError;
use menagerie_spec::SpecFaults;

/// Why a model could not be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SynthError {
    /// The keys do not match the spec.
    #[error(transparent)]
    Spec(#[from] SpecFaults),
    /// A key that the shape of a tensor follows from is missing.
    #[error("the sizes of the model need `{key}` ({why}); pass {key}=VALUE")]
    MissingKey {
        /// Canonical key.
        key: String,
        /// What it sizes.
        why: String,
    },
    /// An unknown file type, or one without random blocks.
    #[error("cannot make a random model of file type `{label}`; use one of {known}")]
    Quantization {
        /// The requested file type.
        label: String,
        /// The supported file types.
        known: String,
    },
    /// A tensor whose rows are not whole blocks of its type.
    #[error(transparent)]
    Type(#[from] QuantizeError),
    /// A component whose tensors or types are not supported.
    #[error("{0}")]
    Unsupported(String),
    /// The caller cancelled it.
    #[error("cancelled")]
    Cancelled,
    /// The file cannot be written.
    #[error(transparent)]
    File(#[from] GgufError),
}

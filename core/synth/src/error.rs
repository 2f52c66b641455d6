//! [`SynthError`]: a random model that cannot be made.

use gguf_file::GgufError;
use menagerie_quantize::QuantizeError;
use menagerie_spec::SpecFaults;

/// Why a model could not be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SynthError {
    /// The keys do not fit the spec.
    #[error(transparent)]
    Spec(#[from] SpecFaults),
    /// A key that the shape of a tensor follows from is missing.
    #[error("the shape needs `{key}`: {why}; give it as {key}=VALUE")]
    MissingKey {
        /// Canonical key.
        key: String,
        /// What it sizes.
        why: String,
    },
    /// A file type that does not exist, or that random blocks cannot be made for.
    #[error("random models of file type `{label}` cannot be made; the file types are: {known}")]
    Quantization {
        /// What was asked for.
        label: String,
        /// What there is.
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

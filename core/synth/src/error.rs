//! [`SynthError`]: a model that cannot be made up.

use gguf_file::GgufError;
use menagerie_spec::SpecFaults;

/// Why no model could be written.
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
    /// No such label.
    #[error("`{label}` is not a quantization this writes; it writes: {known}")]
    Quantization {
        /// What was asked for.
        label: String,
        /// What there is.
        known: String,
    },
    /// A row does not hold whole blocks of any fitting type.
    #[error(
        "tensor `{tensor}`: rows of {columns} are no whole blocks of {kind}, nor of what llama.cpp takes in its place; choose F16, BF16 or F32"
    )]
    Row {
        /// Its name.
        tensor: String,
        /// Elements of a row.
        columns: u64,
        /// Type asked for.
        kind: String,
    },
    /// A component whose tensors this does not know.
    #[error("{0}")]
    Unsupported(String),
    /// The caller ended it.
    #[error("cancelled")]
    Cancelled,
    /// The file cannot be written.
    #[error(transparent)]
    File(#[from] GgufError),
}

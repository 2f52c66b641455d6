//! [`ControlVectorError`]: why a control vector is not used.

use gguf_file::GgufError;

/// Why a control vector is not used, or not written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ControlVectorError {
    /// The file cannot be read or written.
    #[error(transparent)]
    File(#[from] GgufError),
    /// What is in the file is no control vector.
    #[error(
        "{file}: {reason}; a control vector is a GGUF file of the architecture `controlvector` with F32 tensors `direction.N`"
    )]
    Content {
        /// The file.
        file: String,
        /// What is wrong.
        reason: String,
    },
    /// It was made for another model.
    #[error("{file}: {reason}")]
    Unfit {
        /// The file.
        file: String,
        /// What does not fit, and what to do.
        reason: String,
    },
}

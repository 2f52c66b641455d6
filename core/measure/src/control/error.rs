//! [`ControlVectorError`]: why a control vector cannot be used.

use gguf_file::GgufError;

/// Why a control vector cannot be used or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ControlVectorError {
    /// The file cannot be read or written.
    #[error(transparent)]
    File(#[from] GgufError),
    /// The file is not a control vector.
    #[error(
        "{file}: {reason}; a control vector is a GGUF file of the architecture `controlvector` with F32 tensors `direction.N`"
    )]
    Content {
        /// The file.
        file: String,
        /// The fault of the file.
        reason: String,
    },
    /// The control vector was made for another model.
    #[error("{file}: {reason}")]
    Unfit {
        /// The file.
        file: String,
        /// The difference, and what to do.
        reason: String,
    },
}

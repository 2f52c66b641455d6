//! [`AdapterError`]: why an adapter cannot be used.

use menagerie_loaders::SafetensorsError;

/// Why an adapter cannot be read, or does not fit a model.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AdapterError {
    /// The file cannot be read, or is not an adapter.
    #[error("{file}: {reason}")]
    File {
        /// The file or folder.
        file: String,
        /// Why, and what to do.
        reason: String,
    },
    /// A key of its configuration changes the result in an unsupported way.
    #[error("{file}: key \"{key}\": {reason}")]
    Key {
        /// The file.
        file: String,
        /// The key.
        key: String,
        /// Why, and what to do.
        reason: String,
    },
    /// A module does not fit the model, or is incomplete.
    #[error("{file}: module \"{module}\": {reason}")]
    Module {
        /// The file.
        file: String,
        /// The name of the module in the file.
        module: String,
        /// Why, and what to do.
        reason: String,
    },
    /// The safetensors container is damaged.
    #[error(transparent)]
    Safetensors(#[from] SafetensorsError),
    /// The GGUF container is damaged.
    #[error(transparent)]
    Gguf(#[from] gguf_file::GgufError),
}

/// An error about a whole file.
pub(crate) fn about(file: &str, reason: impl Into<String>) -> AdapterError {
    AdapterError::File { file: file.to_owned(), reason: reason.into() }
}

/// An error about a module.
pub(crate) fn of_module(file: &str, module: &str, reason: impl Into<String>) -> AdapterError {
    AdapterError::Module { file: file.to_owned(), module: module.to_owned(), reason: reason.into() }
}

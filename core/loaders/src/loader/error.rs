//! What can go wrong when a file is opened and read.

use gguf_file::GgufError;

use crate::template::TemplateError;
use crate::tokenizer::TokenizerError;

/// An error with the file it is about.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The container is faulty or cannot be read.
    #[error(transparent)]
    Gguf(#[from] GgufError),
    /// The file does not say what it holds.
    #[error(
        "{file}: no `general.architecture`: the file is not a model (an imatrix, say), or its converter was faulty; open the model's own file, or convert it again"
    )]
    NoArchitecture {
        /// The file.
        file: String,
    },
    /// A key holds something else than expected.
    #[error("{file}: `{key}`: {problem}; convert the model again, or set the key with gguf_set_metadata.py")]
    BadKey {
        /// The file.
        file: String,
        /// The metadata key.
        key: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The tokenizer cannot be built.
    #[error("{file}: {source}")]
    Tokenizer {
        /// The file.
        file: String,
        /// What is wrong.
        source: TokenizerError,
    },
    /// The chat template cannot be compiled.
    #[error("{file}: {source}")]
    Template {
        /// The file.
        file: String,
        /// What is wrong.
        source: TemplateError,
    },
}

//! Errors of opening and reading a file.

use gguf_file::GgufError;

use crate::safetensors::SafetensorsError;
use crate::template::TemplateError;
use crate::tokenizer::TokenizerError;

/// An error with the file that it concerns.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The container is invalid or cannot be read.
    #[error(transparent)]
    Gguf(#[from] GgufError),
    /// A file of a Hugging Face folder is invalid or cannot be read.
    #[error(transparent)]
    Safetensors(#[from] SafetensorsError),
    /// The model settings of a Hugging Face folder cannot be used; whole lines, each with its file.
    #[error("{faults}")]
    Config {
        /// What is wrong.
        faults: String,
    },
    /// A folder or file that is not a model.
    #[error("{path}: {problem}")]
    NotAModel {
        /// The path from the caller.
        path: String,
        /// Why it is not a model, and what to do next.
        problem: String,
    },
    /// The file has no `general.architecture`.
    #[error(
        "{file}: no `general.architecture`: the file is not a model (for example an imatrix), or its converter was faulty; open the model's own file, or convert it again"
    )]
    NoArchitecture {
        /// The file.
        file: String,
    },
    /// A key has an unexpected value.
    #[error("{file}: `{key}`: {problem}; convert the model again, or set the key with gguf_set_metadata.py")]
    BadKey {
        /// The file.
        file: String,
        /// The metadata key.
        key: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A file of a folder, other than its weights, is missing, damaged or cannot be read.
    #[error("{file}: {problem}; {advice}")]
    Folder {
        /// The file, or the folder.
        file: String,
        /// What is wrong with it.
        problem: String,
        /// What to do next.
        advice: String,
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

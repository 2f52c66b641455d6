//! What can go wrong when a file is opened and read.

use gguf_file::GgufError;

use crate::safetensors::SafetensorsError;
use crate::template::TemplateError;
use crate::tokenizer::TokenizerError;

/// An error with the file it is about.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The container is faulty or cannot be read.
    #[error(transparent)]
    Gguf(#[from] GgufError),
    /// A file of a Hugging Face folder is faulty or cannot be read.
    #[error(transparent)]
    Safetensors(#[from] SafetensorsError),
    /// What a Hugging Face folder says of its model cannot be used; whole lines, each with its file.
    #[error("{faults}")]
    Config {
        /// What is wrong.
        faults: String,
    },
    /// A folder or file that is no model.
    #[error("{path}: {problem}")]
    NotAModel {
        /// What was given.
        path: String,
        /// Why it is none and what to do.
        problem: String,
    },
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
    /// A file of a folder beside the weights is missing, cannot be read or is damaged.
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

//! Errors of safetensors files, with the file, the tensor and what to do next.

use gguf_file::GgufError;
use std::io;
use std::path::Path;

pub(super) use SafetensorsErrorKind as Kind;

/// An error with its file; `Display` gives one whole line.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SafetensorsError {
    /// The file cannot be opened, mapped or read, or changed while in use.
    #[error(transparent)]
    File(#[from] GgufError),
    /// Its content is invalid.
    #[error("{file}: {kind}")]
    Content {
        /// The file.
        file: String,
        /// What is wrong.
        kind: Box<SafetensorsErrorKind>,
    },
}

impl SafetensorsError {
    pub(super) fn new(file: &Path, kind: SafetensorsErrorKind) -> Self {
        Self::Content { file: file.display().to_string(), kind: Box::new(kind) }
    }
}

/// The reasons, without the file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SafetensorsErrorKind {
    /// The operating system reported an error.
    #[error("cannot {action}: {source}")]
    Io {
        /// The operation.
        action: &'static str,
        /// The error of the system.
        source: io::Error,
    },
    /// The first bytes are of another format.
    #[error("not a safetensors file: {found}; {advice}")]
    Foreign {
        /// The probable format.
        found: String,
        /// What to do next.
        advice: &'static str,
    },
    /// The file is cut off.
    #[error("cut off: {what} needs {needed} bytes and the file has {found}; download the file again")]
    Truncated {
        /// The part that does not fit.
        what: String,
        /// The required size in bytes.
        needed: u64,
        /// The actual size in bytes.
        found: u64,
    },
    /// The header is invalid.
    #[error("damaged header: {problem}")]
    Header {
        /// What is wrong and what to do.
        problem: String,
    },
    /// A tensor's entry is invalid.
    #[error("tensor '{tensor}': {problem}")]
    Tensor {
        /// The tensor's name, shortened.
        tensor: String,
        /// What is wrong and what to do.
        problem: String,
    },
    /// The index of shards is invalid, or does not match them.
    #[error("index of shards: {problem}")]
    Index {
        /// What is wrong and what to do.
        problem: String,
    },
    /// The folder has no weights in this format.
    #[error("no weights: {problem}")]
    NoWeights {
        /// What the folder contains instead, and what to do next.
        problem: String,
    },
}

impl SafetensorsErrorKind {
    pub(super) fn tensor(name: &str, problem: impl Into<String>) -> Self {
        Self::Tensor { tensor: shortened(name), problem: problem.into() }
    }

    pub(super) fn header(problem: impl Into<String>) -> Self {
        Self::Header { problem: problem.into() }
    }

    pub(super) fn index(problem: impl Into<String>) -> Self {
        Self::Index { problem: problem.into() }
    }
}

/// A string from a file, escaped and shortened so that it is safe to print.
pub(super) fn shortened(text: &str) -> String {
    const LIMIT: usize = 96;
    let shown: String = text.chars().take(LIMIT).collect();
    let more = if shown.len() < text.len() { "..." } else { "" };
    format!("{}{more}", shown.escape_debug())
}

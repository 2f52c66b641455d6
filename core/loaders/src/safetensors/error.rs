//! What can be wrong with a safetensors file, said with the file, the tensor and what to do next.

use gguf_file::GgufError;
use std::io;
use std::path::Path;

pub(super) use SafetensorsErrorKind as Kind;

/// An error with the file it is about; `Display` gives one whole line.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SafetensorsError {
    /// The file cannot be opened, mapped or read, or changed while in use.
    #[error(transparent)]
    File(#[from] GgufError),
    /// Its content is wrong.
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
    /// The operating system refused something.
    #[error("cannot {action}: {source}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The first bytes belong to something else.
    #[error("not a safetensors file: {found}; {advice}")]
    Foreign {
        /// What it looks like.
        found: String,
        /// What to do next.
        advice: &'static str,
    },
    /// The file ends too early.
    #[error("cut off: {what} needs {needed} bytes and the file has {found}; download the file again")]
    Truncated {
        /// What does not fit.
        what: String,
        /// Bytes that the file should have.
        needed: u64,
        /// Bytes that it has.
        found: u64,
    },
    /// The header is no such header.
    #[error("damaged header: {problem}")]
    Header {
        /// What is wrong and what to do.
        problem: String,
    },
    /// A tensor's entry is wrong.
    #[error("tensor '{tensor}': {problem}")]
    Tensor {
        /// The tensor's name, shortened.
        tensor: String,
        /// What is wrong and what to do.
        problem: String,
    },
    /// The index of shards is wrong, or does not fit them.
    #[error("index of shards: {problem}")]
    Index {
        /// What is wrong and what to do.
        problem: String,
    },
    /// The folder has no weights in this format.
    #[error("no weights: {problem}")]
    NoWeights {
        /// What is there instead and what to do.
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

/// A text of a file, escaped and shortened so that it is safe to print.
pub(super) fn shortened(text: &str) -> String {
    const LIMIT: usize = 96;
    let shown: String = text.chars().take(LIMIT).collect();
    let more = if shown.len() < text.len() { "..." } else { "" };
    format!("{}{more}", shown.escape_debug())
}

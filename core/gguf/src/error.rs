//! Errors of GGUF files: the file, the place, the reason and what to do next.

use std::io;
use std::path::PathBuf;

use crate::GgmlType;
use menagerie_files::{FileError, path_text};

/// An error with its file. `Display` is one whole line that includes the system's reason, so there is no `source` to
/// print after it.
#[derive(Debug, thiserror::Error)]
#[error("{file}: {kind}")]
pub struct GgufError {
    file: String,
    kind: Box<GgufErrorKind>,
}

impl GgufError {
    pub(crate) fn new(file: impl Into<String>, kind: GgufErrorKind) -> Self {
        Self { file: file.into(), kind: Box::new(kind) }
    }

    /// The file or the name given to [`crate::GgufFile::from_bytes`].
    pub fn file(&self) -> &str {
        &self.file
    }

    /// What is wrong.
    pub fn kind(&self) -> &GgufErrorKind {
        &self.kind
    }
}

impl From<FileError> for GgufError {
    fn from(error: FileError) -> Self {
        let FileError { path, action, reason, .. } = error;
        Self::new(path, GgufErrorKind::io(action, reason))
    }
}

/// The reasons, without the file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GgufErrorKind {
    /// The operating system reported an error.
    #[error("cannot {action}: {source}{advice}")]
    Io {
        /// The operation.
        action: &'static str,
        /// The error of the system.
        source: io::Error,
        /// What to do next, or empty.
        advice: String,
    },
    /// A directory, a pipe, a device.
    #[error("is {what}, not a regular file; {advice}")]
    NotRegular {
        /// What it is.
        what: &'static str,
        /// What to do next.
        advice: String,
    },
    /// The first bytes are of another format.
    #[error("not a GGUF file: {found}; {advice}")]
    NotGguf {
        /// The probable format.
        found: String,
        /// What to do next.
        advice: String,
    },
    /// A version that this reader does not support.
    #[error("GGUF version {version} is not supported (versions 2 and 3 are); {advice}")]
    Version {
        /// The version field.
        version: u32,
        /// What to do next.
        advice: &'static str,
    },
    /// The version field is byte-swapped.
    #[error(
        "a big-endian GGUF file (version {version} with its bytes swapped); only little-endian files are supported: \
         get the little-endian file, or convert this one with gguf_convert_endian.py of llama.cpp"
    )]
    BigEndian {
        /// The version after swapping the bytes.
        version: u32,
    },
    /// A field ends after the end of the file.
    #[error(
        "truncated or damaged: {what} at byte {at} needs {needed} bytes, but {left} are left; download the file again"
    )]
    Truncated {
        /// The position, in bytes from the start of the file.
        at: u64,
        /// What was being read.
        what: String,
        /// Bytes needed.
        needed: u64,
        /// Bytes left in the file.
        left: u64,
    },
    /// A field of the header has an impossible value.
    #[error("damaged header at byte {at}: {problem}")]
    Malformed {
        /// The position, in bytes from the start of the file.
        at: u64,
        /// What is wrong and what to do.
        problem: String,
    },
    /// A metadata key or its value is invalid.
    #[error("metadata key {key} at byte {at}: {problem}")]
    Key {
        /// The key, quoted.
        key: String,
        /// Where the key begins.
        at: u64,
        /// What is wrong.
        problem: String,
    },
    /// A tensor entry is invalid.
    #[error("tensor {tensor}: {problem}")]
    Tensor {
        /// The tensor's name, quoted.
        tensor: String,
        /// What is wrong and what to do.
        problem: String,
    },
    /// A tensor of a type without a known size is used.
    #[error("tensor {tensor}: type {kind}; {}", kind.advice())]
    TensorType {
        /// The tensor's name, quoted.
        tensor: String,
        /// The type of the tensor.
        kind: GgmlType,
    },
    /// The parts of a split model do not belong together.
    #[error("split model: {problem}")]
    Split {
        /// What is wrong and what to do.
        problem: String,
    },
    /// Parts of a split model are missing.
    #[error("split model of {count} parts: missing {}; put all parts in one folder", listed(missing))]
    MissingParts {
        /// The missing files.
        missing: Vec<PathBuf>,
        /// The expected number of parts.
        count: u32,
    },
    /// The file changed while it was mapped.
    #[error("the file changed on disk while in use: {problem}; load the model again")]
    Changed {
        /// What changed.
        problem: String,
    },
    /// The input of the writer cannot be written.
    #[error("cannot write: {problem}")]
    Write {
        /// What is wrong.
        problem: String,
    },
    /// The fault guard cannot be installed.
    #[error(
        "cannot install the fault guard: {source}; without it a file that shrinks while it is mapped ends the process"
    )]
    Guard {
        /// The error of the system.
        source: io::Error,
    },
}

impl GgufErrorKind {
    pub(crate) fn io(action: &'static str, source: io::Error) -> Self {
        Self::Io { action, source, advice: String::new() }
    }

    pub(crate) fn tensor(name: &str, problem: impl Into<String>) -> Self {
        Self::Tensor { tensor: quoted(name.as_bytes()), problem: problem.into() }
    }

    pub(crate) fn write(problem: impl Into<String>) -> Self {
        Self::Write { problem: problem.into() }
    }
}

/// `bytes` as a quoted, escaped, shortened string that is safe to print.
pub(crate) fn quoted(bytes: &[u8]) -> String {
    const LIMIT: usize = 96;
    let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(LIMIT)]);
    let more = if bytes.len() > LIMIT { "..." } else { "" };
    format!("'{}{more}'", shown.escape_debug())
}

fn listed(paths: &[PathBuf]) -> String {
    const LIMIT: usize = 8;
    let names: Vec<String> = paths.iter().take(LIMIT).map(|path| path_text(path)).collect();
    let more = paths.len().saturating_sub(LIMIT);
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{rest}", names.join(", "))
}

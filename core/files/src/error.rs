//! [`FileError`]: a file or folder that cannot be written.

use crate::path_text;
use std::io;
use std::path::Path;

/// A file or folder that cannot be written. `Display` is one whole line with the system's reason in it, so there is no
/// `source` to print after it.
#[derive(Debug, thiserror::Error)]
#[error("{path}: cannot {action}: {reason}")]
#[non_exhaustive]
pub struct FileError {
    /// The file or folder, as text.
    pub path: String,
    /// What failed, as it follows "cannot".
    pub action: &'static str,
    /// The system's reason.
    pub reason: io::Error,
}

impl FileError {
    pub(crate) fn new(path: &Path, action: &'static str, reason: io::Error) -> Self {
        Self { path: path_text(path), action, reason }
    }

    pub(crate) fn no_name(path: &Path, action: &'static str, expected: &str) -> Self {
        Self::new(path, action, io::Error::new(io::ErrorKind::InvalidInput, expected))
    }
}

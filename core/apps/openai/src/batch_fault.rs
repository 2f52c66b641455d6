//! [`BatchFault`]: a file of a batch that cannot be read or written.

use menagerie::files::FileError;
use std::fmt::Display;
use std::io;

/// A file of a batch that cannot be read or written. `Display` says what to do in a line that begins with `help: `.
#[derive(Debug, thiserror::Error)]
#[error("{subject}: {reason}{}", .help.map(|help| format!("\nhelp: {help}")).unwrap_or_default())]
#[non_exhaustive]
pub struct BatchFault {
    /// The file.
    pub subject: String,
    /// What is wrong.
    pub reason: String,
    /// What to do.
    pub help: Option<&'static str>,
}

impl BatchFault {
    /// A fault with the text `SUBJECT: REASON`.
    pub(crate) fn about(subject: impl Display, reason: impl Display) -> Self {
        Self { subject: subject.to_string(), reason: reason.to_string(), help: None }
    }

    /// An error of the system.
    pub(crate) fn io(subject: impl Display, error: &io::Error) -> Self {
        Self::about(subject, error)
    }

    /// The same fault with help.
    pub(crate) fn with_help(self, help: &'static str) -> Self {
        Self { help: Some(help), ..self }
    }
}

impl From<FileError> for BatchFault {
    fn from(error: FileError) -> Self {
        Self::about(&error.path, format!("cannot {}: {}", error.action, error.reason))
    }
}

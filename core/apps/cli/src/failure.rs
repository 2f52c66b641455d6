//! [`Failure`]: how a command ends when it does not succeed, and with which exit code.

use std::fmt;

/// Why a command did not succeed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The arguments do not fit together: exit code 2.
    Usage(String),
    /// Something went wrong: exit code 1.
    Failed(String),
    /// Whoever reads our output has gone: no failure of ours.
    OutputClosed,
}

impl Failure {
    /// A failure with what it concerns put before the reason.
    pub(crate) fn about(subject: impl fmt::Display, reason: impl fmt::Display) -> Self {
        Self::Failed(format!("{subject}: {reason}"))
    }
}

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Failed(error.to_string())
    }
}

/// Reports of several faults carry their own `error:` per line.
pub(crate) fn with_prefix(message: &str) -> String {
    if message.starts_with("error: ") { message.to_owned() } else { format!("error: {message}") }
}

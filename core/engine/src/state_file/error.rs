//! [`StateFileError`]: why a state was not kept, or not taken up.

use super::container::Fault;
use crate::error::GenerateError;
use std::io;
use std::path::Path;

/// Why a state was not kept, or not taken up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StateFileError {
    /// The system says so.
    #[error("{file}: cannot {action} it: {source}")]
    System {
        /// The file.
        file: String,
        /// What was tried.
        action: &'static str,
        /// Why it failed.
        source: io::Error,
    },
    /// The file cannot be written.
    #[error(transparent)]
    Written(#[from] menagerie_files::FileError),
    /// There is something at the path that is no file.
    #[error("{0}: is no file; name a file that the state can be kept in")]
    NoFile(String),
    /// Another process has the file.
    #[error(
        "{0}: another process keeps its state in this file; name another file, or wait until it has ended"
    )]
    InUse(String),
    /// The file is no state file, of another version, cut off or damaged.
    #[error("{file}: {reason}; name another file, or remove this one: the tokens are then computed again")]
    Unreadable {
        /// The file.
        file: String,
        /// What is wrong.
        reason: String,
    },
    /// The state was computed otherwise.
    #[error("{file}: its state was computed otherwise: {}; open the model as it was then, or name another file", .differences.join("; "))]
    Differs {
        /// The file.
        file: String,
        /// What differs, each in words.
        differences: Vec<String>,
    },
    /// More tokens than the context holds.
    #[error("{file}: it holds {tokens} tokens and the context has room for {context}; open the model with -c {}", .tokens.div_ceil(256).saturating_mul(256))]
    TooLong {
        /// The file.
        file: String,
        /// Tokens of the state.
        tokens: usize,
        /// Tokens of the context.
        context: usize,
    },
    /// A conversation would be lost.
    #[error("{file}: it holds a conversation of {messages} messages, which would be lost; name another file")]
    Conversation {
        /// The file.
        file: String,
        /// Messages.
        messages: usize,
    },
    /// A session that the file was not opened for.
    #[error(
        "{0}: it was opened for another model or with other adapters than the session has; open it for the session's pipeline"
    )]
    OtherSession(String),
    /// Something that has no file nothing could tell from others later.
    #[error("{0} was made in code: no file tells it from others, so that its state cannot be kept")]
    Unnamed(String),
    /// The states cannot be read or written.
    #[error("{file}: {source}")]
    State {
        /// The file.
        file: String,
        /// Why.
        source: GenerateError,
    },
}

impl StateFileError {
    pub(super) fn system(file: &Path, action: &'static str, source: io::Error) -> Self {
        Self::System { file: file.display().to_string(), action, source }
    }

    pub(super) fn unreadable(file: &Path, reason: impl ToString) -> Self {
        Self::Unreadable { file: file.display().to_string(), reason: reason.to_string() }
    }

    pub(super) fn fault(file: &Path, fault: Fault) -> Self {
        match fault {
            Fault::System(source) => Self::system(file, "read", source),
            other => Self::unreadable(file, other),
        }
    }

    pub(super) fn state(file: &Path, source: impl Into<GenerateError>) -> Self {
        Self::State { file: file.display().to_string(), source: source.into() }
    }
}

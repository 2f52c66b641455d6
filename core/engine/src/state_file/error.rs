//! [`StateFileError`]: why a state was not saved or not restored.

use super::container::ContainerFault;
use crate::error::GenerateError;
use crate::identity::IdentityError;
use std::io;
use std::path::Path;

/// Why a state was not saved or not restored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StateFileError {
    /// An error of the operating system.
    #[error("{file}: cannot {action} it: {source}")]
    System {
        /// The file.
        file: String,
        /// The action that failed.
        action: &'static str,
        /// Why it failed.
        source: io::Error,
    },
    /// The file cannot be written.
    #[error(transparent)]
    Written(#[from] menagerie_files::FileError),
    /// The path is not a file.
    #[error("{0}: not a file; name a file for the state")]
    NoFile(String),
    /// Another process has the file open.
    #[error(
        "{0}: another process uses this state file; name another file, or wait until that process has ended"
    )]
    InUse(String),
    /// The file is not a state file, has another version, or is truncated or damaged.
    #[error("{file}: {reason}; name another file, or remove this one; the tokens are then computed again")]
    Unreadable {
        /// The file.
        file: String,
        /// The reason.
        reason: String,
    },
    /// The state was computed differently.
    #[error("{file}: its state was computed with other settings: {}; open the model with the old settings, or name another file", .differences.join("; "))]
    Differs {
        /// The file.
        file: String,
        /// The differences, each as a phrase.
        differences: Vec<String>,
    },
    /// The state has more tokens than the context.
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
    /// The file was opened for another session.
    #[error(
        "{0}: the file was opened for another model or with other adapters than those of the session; open it for the session's pipeline"
    )]
    OtherSession(String),
    /// Something that the state depends on cannot be identified.
    #[error(transparent)]
    Identity(#[from] IdentityError),
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

    pub(super) fn fault(file: &Path, fault: ContainerFault) -> Self {
        match fault {
            ContainerFault::System(source) => Self::system(file, "read", source),
            other => Self::unreadable(file, other),
        }
    }

    pub(super) fn state(file: &Path, source: impl Into<GenerateError>) -> Self {
        Self::State { file: file.display().to_string(), source: source.into() }
    }
}

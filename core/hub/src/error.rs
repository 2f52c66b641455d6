//! [`HubError`]: a model that cannot be found or fetched, and what to do about it.

use std::path::PathBuf;

/// Why a model could not be found, fetched or removed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HubError {
    /// What was typed is not a model reference.
    #[error(
        "`{text}` is not a model: {reason}; expected a path to a .gguf file, `org/repo`, `org/repo:QUANT`, `org/repo@revision`, `hf:org/repo/file.gguf`, or an alias ({aliases})"
    )]
    Reference {
        /// What was typed.
        text: String,
        /// What is wrong with it.
        reason: String,
        /// Known aliases.
        aliases: String,
    },
    /// The model is not on this machine and may not be fetched.
    #[error("{model} is not on this machine: {advice}")]
    NotInstalled {
        /// The reference.
        model: String,
        /// What to do.
        advice: String,
    },
    /// The repository has no file that fits.
    #[error("{repository} has no GGUF file for {wanted}; it has: {available}")]
    NoSuchFile {
        /// The repository.
        repository: String,
        /// What was asked for.
        wanted: String,
        /// What is there.
        available: String,
    },
    /// The hub did not answer as expected.
    #[error("{what} from {endpoint}: {reason}; {advice}")]
    Remote {
        /// What was asked for.
        what: String,
        /// Where.
        endpoint: String,
        /// What came back.
        reason: String,
        /// What to do.
        advice: String,
    },
    /// Not enough room.
    #[error(
        "{} has {available} free, {model} needs {needed}; free some room or point HF_HOME (hub) or XDG_CACHE_HOME (packages) elsewhere",
        .folder.display()
    )]
    DiskSpace {
        /// Folder it would go to.
        folder: PathBuf,
        /// The model.
        model: String,
        /// Bytes free, readable.
        available: String,
        /// Bytes needed, readable.
        needed: String,
    },
    /// The bytes are not those that were promised.
    #[error("{}: sha256 is {found}, expected {expected}; remove it (`menagerie models remove`) and pull again", .path.display())]
    Checksum {
        /// The file.
        path: PathBuf,
        /// What was promised.
        expected: String,
        /// What is there.
        found: String,
    },
    /// pip or Python failed.
    #[error("`{command}` failed: {reason}; {advice}")]
    Command {
        /// The command.
        command: String,
        /// Its last words.
        reason: String,
        /// What to do.
        advice: String,
    },
    /// A file or folder.
    #[error("{}: {source}", .path.display())]
    Io {
        /// Which one.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
}

impl HubError {
    /// An I/O error with its path.
    pub(crate) fn io(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { path, source }
    }
}

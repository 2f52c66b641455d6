//! [`HubError`]: errors of finding, downloading and removing models, with advice.

use crate::Cause;
use menagerie_files::path_text;
use std::path::PathBuf;

/// The reason why a model could not be found, downloaded or removed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HubError {
    /// What was typed is not a model reference.
    #[error(
        "`{text}` is not a model: {reason}; expected a path to a .gguf file or to a folder with config.json, `org/repo`, `org/repo:QUANT`, `org/repo@revision`, `hf:org/repo/file.gguf`, or a short name ({names})"
    )]
    Reference {
        /// What was typed.
        text: String,
        /// The error in it.
        reason: String,
        /// Some short names.
        names: String,
    },
    /// The model is not on this machine and may not be downloaded.
    #[error("{model} is not on this machine: {advice}")]
    NotInstalled {
        /// The reference.
        model: String,
        /// What to do.
        advice: String,
    },
    /// A path instead of a name.
    #[error("{} is a path, but only names can be downloaded; {advice}", path_text(.path))]
    NotAName {
        /// The path.
        path: PathBuf,
        /// What to do.
        advice: &'static str,
    },
    /// The caller stopped it.
    #[error("stopped; what was downloaded is kept, and the next pull resumes from there")]
    Stopped,
    /// Several models match.
    #[error("`{name}` matches several models: {}; name one of them", .candidates.join(", "))]
    Ambiguous {
        /// What was typed.
        name: String,
        /// The matches, as they can be typed.
        candidates: Vec<String>,
    },
    /// The repository has no matching file.
    #[error("{repository} has no GGUF file for {wanted}; it has {available}")]
    NoSuchFile {
        /// The repository.
        repository: String,
        /// The requested file.
        wanted: String,
        /// The existing files.
        available: String,
    },
    /// The hub did not return the requested data.
    #[error("{what} from {endpoint}: {cause}{kept}; {}{}", .cause.advice(), otherwise(.cause))]
    Remote {
        /// The requested data.
        what: String,
        /// The address of the hub.
        endpoint: String,
        /// The reason.
        cause: Cause,
        /// The size of an interrupted download that is kept (`; ...`), or empty.
        kept: String,
    },
    /// Not enough disk space, detected before the download.
    #[error(
        "{} has {available} free, but {model} needs {needed} more; free some space, or set HF_HOME (hub) or XDG_CACHE_HOME (packages) to another folder",
        path_text(.folder)
    )]
    DiskSpace {
        /// The folder for the download.
        folder: PathBuf,
        /// The model.
        model: String,
        /// Bytes free, readable.
        available: String,
        /// Bytes needed, readable.
        needed: String,
    },
    /// Not enough disk space, detected while writing.
    #[error(
        "{}: the disk is full ({source}); {kept} are kept: free some space, then pull again to resume",
        path_text(.path)
    )]
    DiskFull {
        /// The file that was written.
        path: PathBuf,
        /// Bytes kept, readable.
        kept: String,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The checksum differs from the published one.
    #[error("{}: {kind} is {found}, expected {expected}: the file is damaged or has been replaced; remove it and pull again", path_text(.path))]
    Checksum {
        /// The file.
        path: PathBuf,
        /// `sha256` or `git sha1`.
        kind: &'static str,
        /// The published checksum.
        expected: String,
        /// The checksum of the file.
        found: String,
    },
    /// The downloaded file differs from the published one; it was renamed.
    #[error(
        "{file}: the download is damaged or is another file ({reason}); it is kept as {}, which you can delete; pull again",
        path_text(.aside)
    )]
    Damaged {
        /// The file of the repository.
        file: String,
        /// The difference.
        reason: String,
        /// The new name of the file.
        aside: PathBuf,
    },
    /// The hub and the table of models have different checksums.
    #[error(
        "{file} of {repository}: the table of models has sha256 {expected}, but the hub has {found}: the file was replaced on the hub; use `hf:{repository}/{file}` to accept the new file"
    )]
    Replaced {
        /// The file.
        file: String,
        /// The repository.
        repository: String,
        /// The table's checksum.
        expected: String,
        /// The hub's.
        found: String,
    },
    /// The files to remove are behind a link.
    #[error(
        "{} is a link to {}, which is outside the cache, so nothing was removed; remove the link, or the files there yourself",
        path_text(.link), path_text(.target)
    )]
    Outside {
        /// The link.
        link: PathBuf,
        /// Its target.
        target: PathBuf,
    },
    /// The files to remove are being downloaded.
    #[error("{name}: another process is downloading it; try again when it has finished")]
    InUse {
        /// The model.
        name: String,
    },
    /// pip or Python failed.
    #[error("`{command}` failed: {reason}; {advice}")]
    Command {
        /// The command.
        command: String,
        /// The last line of its output.
        reason: String,
        /// What to do.
        advice: String,
    },
    /// No folder for models.
    #[error("no folder for models: neither HOME nor {variable} is set; set one of them")]
    NoHome {
        /// The other variable.
        variable: &'static str,
    },
    /// A folder of the cache cannot be used.
    #[error("{}: {source}; models cannot be stored there: set HF_HOME (hub) or XDG_CACHE_HOME (packages) to a folder that you can write", path_text(.path))]
    Folder {
        /// The folder.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A file or folder cannot be read or written.
    #[error("{}: {source}", path_text(.path))]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The table of models is invalid.
    #[error(
        "{place}: {problem}; correct the table, or move it away (`menagerie guide spec-language` describes its format)"
    )]
    Catalog {
        /// File, line and column.
        place: String,
        /// Entry, key and error.
        problem: String,
    },
}

impl HubError {
    /// An I/O error with its path.
    pub(crate) fn io(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { path, source }
    }

    /// A folder that cannot be created or written.
    pub(crate) fn folder(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::Folder { path, source }
    }

    /// The error without advice, for a note when another source is tried.
    pub(crate) fn reason(&self) -> String {
        match self {
            Self::Remote { what, endpoint, cause, .. } => format!("{what} from {endpoint}: {cause}"),
            other => other.to_string(),
        }
    }

    /// Whether the hub could not be reached.
    pub(crate) fn is_unreachable(&self) -> bool {
        matches!(self, Self::Remote { cause, .. } if cause.is_unreachable())
    }
}

/// Advice that is always possible if the hub cannot be reached.
pub(crate) const OWN_FILE: &str = "or pass the path of a GGUF file that you have";

/// `, or pass the path ...` if the hub could not be reached.
fn otherwise(cause: &Cause) -> String {
    if cause.is_unreachable() { format!(", {OWN_FILE}") } else { String::new() }
}

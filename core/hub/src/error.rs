//! [`HubError`]: a model that cannot be found or fetched, and what to do about it.

use crate::Cause;
use menagerie_files::path_text;
use std::path::PathBuf;

/// Why a model could not be found, fetched or removed.
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
        /// What is wrong with it.
        reason: String,
        /// Known short names.
        names: String,
    },
    /// The model is not on this machine and may not be fetched.
    #[error("{model} is not on this machine: {advice}")]
    NotInstalled {
        /// The reference.
        model: String,
        /// What to do.
        advice: String,
    },
    /// A path where a name is wanted.
    #[error("{} is a path, and only names can be fetched; {advice}", path_text(.path))]
    NotAName {
        /// The path.
        path: PathBuf,
        /// What to do.
        advice: &'static str,
    },
    /// Several models fit.
    #[error("`{name}` fits several: {}; name one of them", .candidates.join(", "))]
    Unclear {
        /// What was typed.
        name: String,
        /// What fits, as it can be typed.
        candidates: Vec<String>,
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
    /// The hub did not give what it was asked for.
    #[error("{what} from {endpoint}: {cause}{kept}; {}{}", .cause.advice(), otherwise(.cause))]
    Remote {
        /// What was asked for.
        what: String,
        /// Where.
        endpoint: String,
        /// Why not.
        cause: Cause,
        /// What is kept of an interrupted transfer (`; ...`), else empty.
        kept: String,
    },
    /// Not enough room, found out beforehand.
    #[error(
        "{} has {available} free, {model} needs {needed} more; free some room or point HF_HOME (hub) or XDG_CACHE_HOME (packages) elsewhere",
        path_text(.folder)
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
    /// Not enough room, found out while writing.
    #[error(
        "{}: the disk is full ({source}); {kept} are kept: free some room, and the next pull goes on from there",
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
    /// The bytes are not those that were promised.
    #[error("{}: {kind} is {found}, expected {expected}: the file is damaged, or another one; remove it and pull again", path_text(.path))]
    Checksum {
        /// The file.
        path: PathBuf,
        /// `sha256` or `git sha1`.
        kind: &'static str,
        /// What was promised.
        expected: String,
        /// What is there.
        found: String,
    },
    /// What came is not what was promised; it was put aside.
    #[error(
        "{file}: what was fetched is damaged, or another file ({reason}); it is put aside as {}: delete it, or look at it; pull again",
        path_text(.aside)
    )]
    Damaged {
        /// The file of the repository.
        file: String,
        /// How it differs.
        reason: String,
        /// Where the bytes are now.
        aside: PathBuf,
    },
    /// The hub promises other bytes than the table of models.
    #[error(
        "{file} of {repository}: the table of models expects sha256 {expected}, the hub has {found}: the file was replaced there; `hf:{repository}/{file}` takes it as it is"
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
    /// What is to be removed lies behind a link.
    #[error(
        "{} is a link to {}: what lies there is not part of the cache and stays as it is; remove the link, or the files there yourself",
        path_text(.link), path_text(.target)
    )]
    Outside {
        /// The link.
        link: PathBuf,
        /// Where it leads.
        target: PathBuf,
    },
    /// What is to be removed is being fetched.
    #[error("{name}: another process is fetching it; try again when it has ended")]
    InUse {
        /// The model.
        name: String,
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
    /// No folder to keep models in.
    #[error("there is no folder for models: neither HOME nor {variable} is set; set one of them")]
    NoHome {
        /// The other variable.
        variable: &'static str,
    },
    /// A folder of the cache cannot be used.
    #[error("{}: {source}; models cannot be kept there: point HF_HOME (hub) or XDG_CACHE_HOME (packages) at a folder of yours", path_text(.path))]
    Folder {
        /// Which one.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A file or folder.
    #[error("{}: {source}", path_text(.path))]
    Io {
        /// Which one.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The table of models has a fault.
    #[error(
        "{place}: {problem}; correct it there, or move the table away (`menagerie guide spec-language` describes the table)"
    )]
    Catalog {
        /// File, line and column.
        place: String,
        /// Entry and key, and what is wrong.
        problem: String,
    },
}

impl HubError {
    /// An I/O error with its path.
    pub(crate) fn io(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { path, source }
    }

    /// A folder that cannot be made or written.
    pub(crate) fn folder(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::Folder { path, source }
    }

    /// The error without advice, for where another way is tried.
    pub(crate) fn reason(&self) -> String {
        match self {
            Self::Remote { what, endpoint, cause, .. } => format!("{what} from {endpoint}: {cause}"),
            other => other.to_string(),
        }
    }

    /// Whether no hub was there to ask.
    pub(crate) fn no_answer(&self) -> bool {
        matches!(self, Self::Remote { cause, .. } if cause.no_answer())
    }
}

/// What is always possible where no hub answers.
pub(crate) const OWN_FILE: &str = "or pass the path of a GGUF file you have";

/// `, or pass the path ...` where no hub was there to ask.
fn otherwise(cause: &Cause) -> String {
    if cause.no_answer() { format!(", {OWN_FILE}") } else { String::new() }
}

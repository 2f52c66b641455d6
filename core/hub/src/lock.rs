//! Locks of the hub's caches: one process downloads a file; the others wait and print a note.

use crate::{HubError, Progress};
use menagerie_files::FileLock;
use std::path::Path;

/// Waits for the lock at `path`; `what` is the name of the download in the note.
///
/// # Errors
/// The lock file cannot be created or locked.
pub(crate) fn acquire(path: &Path, what: &str, progress: &mut dyn Progress) -> Result<FileLock, HubError> {
    let folder = path.parent().unwrap_or(path);
    std::fs::create_dir_all(folder).map_err(HubError::folder(folder))?;
    let mut waiting =
        || progress.note(&format!("{what}: another process is downloading it; waiting for it to finish"));
    FileLock::wait_at(path, &mut waiting).map_err(HubError::folder(path))
}

/// Takes the lock at `path`; `None` if another process has it.
///
/// # Errors
/// The lock file cannot be created or locked.
pub(crate) fn try_acquire(path: &Path) -> Result<Option<FileLock>, HubError> {
    let folder = path.parent().unwrap_or(path);
    std::fs::create_dir_all(folder).map_err(HubError::folder(folder))?;
    FileLock::try_at(path).map_err(HubError::folder(path))
}

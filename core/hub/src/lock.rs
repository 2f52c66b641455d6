//! Locks of the hub's caches: one process fetches a file, others wait and report it.

use crate::{HubError, Progress};
use menagerie_files::FileLock;
use std::path::Path;

/// Waits for the lock at `path`; `what` is fetched by its holder.
///
/// # Errors
/// The lock file cannot be made or locked.
pub(crate) fn acquire(path: &Path, what: &str, progress: &mut dyn Progress) -> Result<FileLock, HubError> {
    let folder = path.parent().unwrap_or(path);
    std::fs::create_dir_all(folder).map_err(HubError::folder(folder))?;
    let mut waiting =
        || progress.note(&format!("{what}: another process is fetching it; waiting for its end"));
    FileLock::wait_at(path, &mut waiting).map_err(HubError::folder(path))
}

/// Takes the lock at `path`; `None` if another process has it.
///
/// # Errors
/// The lock file cannot be made or locked.
pub(crate) fn try_acquire(path: &Path) -> Result<Option<FileLock>, HubError> {
    let folder = path.parent().unwrap_or(path);
    std::fs::create_dir_all(folder).map_err(HubError::folder(folder))?;
    FileLock::try_at(path).map_err(HubError::folder(path))
}

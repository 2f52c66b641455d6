//! [`FileLock`]: one process at a time; others wait and say so.
//!
//! Locks of files that are written (`gguf_file::FileLock`) give up after a moment; this one waits for as long as a download takes,
//! on the file that HF's tools lock.

use crate::{HubError, Progress};
use std::fs::{File, TryLockError};
use std::path::Path;

/// An exclusive lock on a file (`flock` on Unix, as HF's tools lock their cache), released when dropped.
#[derive(Debug)]
pub(crate) struct FileLock {
    _file: File,
}

impl FileLock {
    /// Waits for the lock; `what` is being waited for.
    ///
    /// # Errors
    /// The lock file cannot be made or locked.
    pub(crate) fn acquire(path: &Path, what: &str, progress: &mut dyn Progress) -> Result<Self, HubError> {
        let folder = path.parent().unwrap_or(path);
        std::fs::create_dir_all(folder).map_err(HubError::folder(folder))?;
        loop {
            let opened = File::options().create(true).truncate(false).write(true).open(path);
            let file = opened.map_err(HubError::folder(path))?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    progress.note(&format!("{what}: another process is fetching it; waiting for its end"));
                    file.lock().map_err(HubError::io(path))?;
                }
                // A file system without locks: what is fetched is checked all the same.
                Err(TryLockError::Error(error)) if error.kind() == std::io::ErrorKind::Unsupported => {}
                Err(TryLockError::Error(error)) => return Err(HubError::io(path)(error)),
            }
            if still_named(&file, path) {
                return Ok(Self { _file: file });
            }
        }
    }
}

/// Whether the locked file still has its name: whoever held the lock may have removed it.
#[cfg(unix)]
fn still_named(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    match (file.metadata(), std::fs::metadata(path)) {
        (Ok(ours), Ok(named)) => (ours.dev(), ours.ino()) == (named.dev(), named.ino()),
        _ => false,
    }
}

#[cfg(not(unix))]
fn still_named(_file: &File, _path: &Path) -> bool {
    true
}

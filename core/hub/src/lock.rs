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
            let file = open(path)?;
            if !try_lock(&file, path)? {
                progress.note(&format!("{what}: another process is fetching it; waiting for its end"));
                file.lock().map_err(HubError::io(path))?;
            }
            if gguf_file::FileLock::is_at(&file, path) {
                return Ok(Self { _file: file });
            }
        }
    }

    /// Takes the lock if nobody has it; `None` if another process has.
    ///
    /// # Errors
    /// The lock file cannot be made or locked.
    pub(crate) fn try_acquire(path: &Path) -> Result<Option<Self>, HubError> {
        let folder = path.parent().unwrap_or(path);
        std::fs::create_dir_all(folder).map_err(HubError::folder(folder))?;
        loop {
            let file = open(path)?;
            if !try_lock(&file, path)? {
                return Ok(None);
            }
            if gguf_file::FileLock::is_at(&file, path) {
                return Ok(Some(Self { _file: file }));
            }
        }
    }

    /// Whether another process has the lock. Makes no lock file.
    pub(crate) fn is_held(path: &Path) -> bool {
        let opened = File::options().write(true).open(path);
        opened.is_ok_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
    }
}

fn open(path: &Path) -> Result<File, HubError> {
    let opened = File::options().create(true).truncate(false).write(true).open(path);
    opened.map_err(HubError::folder(path))
}

/// Locks the file unless another process has it locked.
fn try_lock(file: &File, path: &Path) -> Result<bool, HubError> {
    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        // A file system without locks: what is fetched is checked all the same.
        Err(TryLockError::Error(error)) if error.kind() == std::io::ErrorKind::Unsupported => Ok(true),
        Err(TryLockError::Error(error)) => Err(HubError::io(path)(error)),
    }
}

//! [`Lock`]: keeps a second process from a file that this one will replace.

use std::ffi::OsString;
use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

/// A lock of the file at a path. It is on a hidden file beside it, since the file itself is replaced when it is written; the
/// system lets go of it with the process, however that ends.
#[derive(Debug)]
pub(super) struct Lock {
    path: PathBuf,
    /// Absent where the file system has no locks.
    held: Option<File>,
}

impl Lock {
    /// The lock for `target`; `None` if somebody else holds it.
    ///
    /// # Errors
    /// Nothing can be written beside the target.
    pub(super) fn take(target: &Path) -> io::Result<Option<Self>> {
        let mut name = OsString::from(".");
        name.push(target.file_name().unwrap_or_default());
        name.push(".lock");
        let path = target.with_file_name(name);
        loop {
            let file = File::options().create(true).append(true).open(&path)?;
            match file.try_lock() {
                Ok(()) if is_at(&file, &path) => return Ok(Some(Self { path, held: Some(file) })),
                // Whoever held it took it away between our opening and our locking.
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => {
                    return Ok(Some(Self { path, held: None }));
                }
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // First the name, then the lock: who opens the file meanwhile sees that it is no longer there.
        let _ = std::fs::remove_file(&self.path);
        self.held = None;
    }
}

/// Whether an open file is still the one of its name.
fn is_at(file: &File, path: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        if let (Ok(open), Ok(named)) = (file.metadata(), path.metadata()) {
            return (open.dev(), open.ino()) == (named.dev(), named.ino());
        }
        false
    }
    #[cfg(not(unix))]
    {
        // An open file cannot be removed there.
        let _ = file;
        path.exists()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_holds_it_at_a_time_and_nothing_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("a.state");
        let first = Lock::take(&target).unwrap().unwrap();
        assert!(Lock::take(&target).unwrap().is_none());
        assert!(Lock::take(&folder.path().join("b.state")).unwrap().is_some());
        drop(first);
        drop(Lock::take(&target).unwrap().unwrap());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        // What a killed process left behind is locked by nobody.
        std::fs::write(folder.path().join(".a.state.lock"), "").unwrap();
        assert!(Lock::take(&target).unwrap().is_some());
        assert!(Lock::take(&folder.path().join("absent/a.state")).is_err());
    }
}

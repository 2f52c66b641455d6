//! [`FileLock`]: keeps other processes from a file that this one writes.

use std::ffi::OsString;
use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How often a lock that somebody holds is tried, and how long it is waited in between.
const TRIES: usize = 50;
const PAUSE: Duration = Duration::from_millis(10);

/// A lock of the file at a path. It is on a hidden file beside it, since the file itself is replaced when it is written; the
/// system lets go of it with the process, however that ends.
///
/// Who holds a lock for a moment only is waited for: a process that was just started holds the files of the one that
/// started it until it runs.
#[derive(Debug)]
pub struct FileLock {
    path: PathBuf,
    /// Absent where the file system has no locks.
    held: Option<File>,
}

impl FileLock {
    /// The lock for `target`; `None` if somebody else holds it and goes on to.
    ///
    /// # Errors
    /// Nothing can be written beside the target.
    pub fn beside(target: impl AsRef<Path>) -> io::Result<Option<Self>> {
        let target = target.as_ref();
        let mut name = OsString::from(".");
        name.push(target.file_name().unwrap_or_default());
        name.push(".lock");
        let path = target.with_file_name(name);
        loop {
            let file = File::options().create(true).append(true).open(&path)?;
            match Self::hold(&file)? {
                Held::Ours if Self::is_at(&file, &path) => return Ok(Some(Self { path, held: Some(file) })),
                // Whoever held it took it away between our opening and our locking.
                Held::Ours => {}
                Held::Theirs => return Ok(None),
                Held::Nobodys => return Ok(Some(Self { path, held: None })),
            }
        }
    }

    /// Locks an open file itself, which stays where it is; the lock goes with the file. Gives whether it may be
    /// written: `false` if somebody else holds the lock and goes on to.
    ///
    /// # Errors
    /// The system's.
    pub fn of(file: &File) -> io::Result<bool> {
        Ok(match Self::hold(file)? {
            Held::Ours | Held::Nobodys => true,
            Held::Theirs => false,
        })
    }

    /// Whether an open file is still the one that its path names. On systems other than Unix: whether the path exists, since
    /// an open file cannot be removed there.
    pub fn is_at(file: &File, path: impl AsRef<Path>) -> bool {
        let path = path.as_ref();
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
            let _ = file;
            path.exists()
        }
    }

    fn hold(file: &File) -> io::Result<Held> {
        for _ in 0..TRIES {
            match file.try_lock() {
                Ok(()) => return Ok(Held::Ours),
                Err(TryLockError::WouldBlock) => std::thread::sleep(PAUSE),
                // A file system without locks is no reason to do nothing.
                Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => {
                    return Ok(Held::Nobodys);
                }
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
        Ok(Held::Theirs)
    }
}

/// Whose a lock is.
enum Held {
    Ours,
    Theirs,
    /// The file system has none.
    Nobodys,
}

impl Drop for FileLock {
    fn drop(&mut self) {
        // First the name, then the lock: who opens the file meanwhile sees that it is no longer there.
        let _ = std::fs::remove_file(&self.path);
        self.held = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_holds_it_at_a_time_and_nothing_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("a.state");
        let first = FileLock::beside(&target).unwrap().unwrap();
        assert!(FileLock::beside(&target).unwrap().is_none());
        assert!(FileLock::beside(folder.path().join("b.state")).unwrap().is_some());
        drop(first);
        drop(FileLock::beside(&target).unwrap().unwrap());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        // What a killed process left behind is locked by nobody.
        std::fs::write(folder.path().join(".a.state.lock"), "").unwrap();
        assert!(FileLock::beside(&target).unwrap().is_some());
        assert!(FileLock::beside(folder.path().join("absent/a.state")).is_err());
    }

    /// A lock that is held for a moment is waited for, beside a file and on it.
    #[test]
    fn who_lets_go_soon_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("a");
        let lets_go = |lock: Box<dyn FnOnce() + Send>| {
            std::thread::spawn(move || {
                std::thread::sleep(PAUSE * 5);
                lock();
            })
        };
        let first = FileLock::beside(&target).unwrap().unwrap();
        let gone = lets_go(Box::new(move || drop(first)));
        assert!(FileLock::beside(&target).unwrap().is_some());
        gone.join().unwrap();
        let (one, other) = (File::create(&target).unwrap(), File::open(&target).unwrap());
        assert!(FileLock::of(&one).unwrap());
        assert!(!FileLock::of(&other).unwrap());
        let gone = lets_go(Box::new(move || drop(one)));
        assert!(FileLock::of(&other).unwrap());
        gone.join().unwrap();
    }
}

//! [`FileLock`]: one process at a time writes a file.

use std::ffi::OsString;
use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Attempts to take a lock that another process holds, and the pause between them.
const TRIES: usize = 50;
const PAUSE: Duration = Duration::from_millis(10);

/// A lock of a file between processes, released when dropped and when the process ends. On Unix it is an `flock`, as
/// Hugging Face's tools lock their cache. On a file system without locks every lock is granted.
#[derive(Debug)]
pub struct FileLock {
    /// The hidden lock file, which is removed with the lock; `None` where the lock file stays.
    hidden: Option<PathBuf>,
    /// Holds the lock, where the file system has locks.
    _file: File,
}

impl FileLock {
    /// The lock for writing `target`; `None` if another process holds it and does not release it within half a second
    /// (a process that was just started holds the files of its parent until it runs). It is on a hidden file beside
    /// `target`, because `target` itself is replaced when it is written.
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
            match retried(&file)? {
                LockState::Acquired if Self::is_at(&file, &path) => {
                    return Ok(Some(Self { hidden: Some(path), _file: file }));
                }
                // Its holder removed it after it was opened here and before it was locked.
                LockState::Acquired => {}
                LockState::Taken => return Ok(None),
                LockState::Unsupported => return Ok(Some(Self { hidden: Some(path), _file: file })),
            }
        }
    }

    /// The lock on the lock file at `path`, which is made and stays; `None` if another process holds it.
    ///
    /// # Errors
    /// The lock file cannot be made or locked.
    pub fn try_at(path: impl AsRef<Path>) -> io::Result<Option<Self>> {
        let path = path.as_ref();
        loop {
            let file = lock_file(path)?;
            if let LockState::Taken = tried(&file)? {
                return Ok(None);
            }
            if Self::is_at(&file, path) {
                return Ok(Some(Self { hidden: None, _file: file }));
            }
        }
    }

    /// The same, but waits for as long as another process holds the lock; `waiting` is called before each wait.
    ///
    /// # Errors
    /// As [`Self::try_at`].
    pub fn wait_at(path: impl AsRef<Path>, waiting: &mut dyn FnMut()) -> io::Result<Self> {
        let path = path.as_ref();
        loop {
            let file = lock_file(path)?;
            if let LockState::Taken = tried(&file)? {
                waiting();
                file.lock()?;
            }
            if Self::is_at(&file, path) {
                return Ok(Self { hidden: None, _file: file });
            }
        }
    }

    /// Whether another process holds the lock on the lock file at `path`. Makes no lock file.
    pub fn is_held(path: impl AsRef<Path>) -> bool {
        let opened = File::options().write(true).open(path);
        opened.is_ok_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
    }

    /// Locks an open file itself, which stays where it is, for as long as it is open. Returns whether it may be written:
    /// `false` if another process holds the lock and does not release it within half a second.
    ///
    /// # Errors
    /// The system's.
    pub fn of(file: &File) -> io::Result<bool> {
        Ok(!matches!(retried(file)?, LockState::Taken))
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
}

/// The outcome of an attempt to lock.
enum LockState {
    Acquired,
    /// Another process holds the lock.
    Taken,
    /// The file system has no locks.
    Unsupported,
}

fn lock_file(path: &Path) -> io::Result<File> {
    File::options().create(true).truncate(false).write(true).open(path)
}

fn tried(file: &File) -> io::Result<LockState> {
    match file.try_lock() {
        Ok(()) => Ok(LockState::Acquired),
        Err(TryLockError::WouldBlock) => Ok(LockState::Taken),
        Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => {
            Ok(LockState::Unsupported)
        }
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Tries for half a second.
fn retried(file: &File) -> io::Result<LockState> {
    for _ in 0..TRIES {
        match tried(file)? {
            LockState::Taken => std::thread::sleep(PAUSE),
            state => return Ok(state),
        }
    }
    Ok(LockState::Taken)
}

impl Drop for FileLock {
    fn drop(&mut self) {
        // First the name, then the lock: a process that opens the file meanwhile sees that its name is gone.
        if let Some(hidden) = &self.hidden {
            let _ = std::fs::remove_file(hidden);
        }
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
        // The lock file of a killed process is not locked.
        std::fs::write(folder.path().join(".a.state.lock"), "").unwrap();
        assert!(FileLock::beside(&target).unwrap().is_some());
        assert!(FileLock::beside(folder.path().join("absent/a.state")).is_err());
    }

    /// A lock file at a path stays when its lock is released; a waiting process gets the lock then.
    #[test]
    fn a_lock_at_a_path_is_held_by_one_and_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.lock");
        assert!(!FileLock::is_held(&path) && !path.exists());
        let first = FileLock::try_at(&path).unwrap().unwrap();
        assert!(FileLock::is_held(&path) && FileLock::try_at(&path).unwrap().is_none());
        let (sender, receiver) = std::sync::mpsc::channel();
        let waiter = std::thread::spawn({
            let path = path.clone();
            move || FileLock::wait_at(&path, &mut || sender.send(()).unwrap()).unwrap()
        });
        receiver.recv().unwrap();
        drop(first);
        let second = waiter.join().unwrap();
        assert!(FileLock::is_held(&path));
        drop(second);
        assert!(!FileLock::is_held(&path) && path.exists());
        assert!(FileLock::try_at(folder.path().join("absent/a.lock")).is_err());
    }

    /// A lock that is held for a moment is waited for, beside a file and on it.
    #[test]
    fn a_lock_that_is_released_soon_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("a");
        let released_soon = |lock: Box<dyn FnOnce() + Send>| {
            std::thread::spawn(move || {
                std::thread::sleep(PAUSE * 5);
                lock();
            })
        };
        let first = FileLock::beside(&target).unwrap().unwrap();
        let gone = released_soon(Box::new(move || drop(first)));
        assert!(FileLock::beside(&target).unwrap().is_some());
        gone.join().unwrap();
        let (one, other) = (File::create(&target).unwrap(), File::open(&target).unwrap());
        assert!(FileLock::of(&one).unwrap());
        assert!(!FileLock::of(&other).unwrap());
        let gone = released_soon(Box::new(move || drop(one)));
        assert!(FileLock::of(&other).unwrap());
        gone.join().unwrap();
    }
}

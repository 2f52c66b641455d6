//! A file that appears whole or not at all.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::FileError;

/// Writes to a hidden file beside the target, which [`Self::commit`] renames over the target; readers that have the
/// old file mapped keep it. Dropped without commit, the hidden file is removed and the target stays as it was.
///
/// For any output that must not be seen half-written:
///
/// ```
/// use menagerie_files::AtomicFile;
/// use std::io::Write;
///
/// let folder = tempfile::tempdir()?;
/// let target = folder.path().join("notes.txt");
/// let mut file = AtomicFile::create(&target)?;
/// file.write_all(b"whole")?;
/// assert!(!target.exists());
/// file.commit()?;
/// assert_eq!(std::fs::read(&target)?, b"whole");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct AtomicFile {
    writer: BufWriter<NamedTempFile>,
    target: PathBuf,
}

impl AtomicFile {
    /// Begins a file that will be at `target`, with the permissions of any new file.
    ///
    /// # Errors
    /// The path has no file name, or the folder cannot be written.
    pub fn create(target: impl AsRef<Path>) -> Result<Self, FileError> {
        let target = target.as_ref();
        let Some(name) = target.file_name() else {
            let expected = "the path does not end in a file name";
            return Err(FileError::no_name(target, "create the file", expected));
        };
        let prefix = hidden_prefix(name);
        let mut builder = tempfile::Builder::new();
        builder.prefix(&prefix).suffix(HIDDEN_SUFFIX);
        // Not the 0600 of temporary files: the mode is that of any new file, less what the process masks.
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        let file = builder.tempfile_in(folder(target));
        let file = file.map_err(|error| FileError::new(target, "create the file", reason(target, &error)))?;
        Ok(Self { writer: BufWriter::with_capacity(1 << 20, file), target: target.into() })
    }

    /// Makes the content durable and renames the file to its target.
    ///
    /// # Errors
    /// The disk is full, or the target is a folder; the hidden file is removed then.
    pub fn commit(self) -> Result<(), FileError> {
        let target = self.target;
        let file = self
            .writer
            .into_inner()
            .map_err(|error| FileError::new(&target, "write the file", error.into_error()))?;
        let synced = file.as_file().sync_all();
        synced.map_err(|source| FileError::new(&target, "write the file to the disk", source))?;
        file.persist(&target)
            .map_err(|error| FileError::new(&target, "rename the finished file to its name", error.error))?;
        sync_folder(&target).map_err(|source| FileError::new(&target, "write the folder to the disk", source))
    }
}

/// The end of the names of hidden files and folders.
pub(crate) const HIDDEN_SUFFIX: &str = ".part";

/// The beginning of the name of a hidden file or folder beside `name`.
pub(crate) fn hidden_prefix(name: &OsStr) -> OsString {
    let mut prefix = OsString::from(".");
    prefix.push(name);
    prefix.push(".");
    prefix
}

/// The system's reason without the name of the hidden file.
fn reason(target: &Path, error: &io::Error) -> io::Error {
    std::fs::metadata(folder(target)).err().unwrap_or_else(|| error.kind().into())
}

/// The folder of a file.
pub(crate) fn folder(target: &Path) -> &Path {
    target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(unix)]
pub(crate) fn sync_folder(target: &Path) -> io::Result<()> {
    match File::open(folder(target))?.sync_all() {
        // Some file systems cannot sync folders.
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
        other => other,
    }
}

#[cfg(not(unix))]
pub(crate) fn sync_folder(_target: &Path) -> io::Result<()> {
    Ok(())
}

impl Write for AtomicFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writer.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn nothing_is_left_of_a_file_that_was_not_committed() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("a");
        fs::write(&target, "old").unwrap();
        let mut file = AtomicFile::create(&target).unwrap();
        file.write_all(b"new").unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
        drop(file);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        assert_eq!(fs::read(&target).unwrap(), b"old");
        // A folder cannot be replaced by a file; what was written goes.
        let blocked = folder.path().join("b");
        fs::create_dir(&blocked).unwrap();
        let file = AtomicFile::create(&blocked).unwrap();
        assert!(file.commit().unwrap_err().to_string().contains("rename"));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
        assert!(AtomicFile::create(Path::new("/")).is_err());
        let absent = AtomicFile::create(folder.path().join("absent/c")).unwrap_err().to_string();
        assert!(absent.contains("absent/c: cannot create the file") && !absent.contains(".part"), "{absent}");
    }

    #[cfg(unix)]
    #[test]
    fn permissions_are_those_of_any_new_file() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let (plain, atomic) = (folder.path().join("plain"), folder.path().join("atomic"));
        fs::write(&plain, "").unwrap();
        AtomicFile::create(&atomic).unwrap().commit().unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode(&atomic), mode(&plain));
    }
}

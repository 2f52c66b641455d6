//! A folder that appears whole or not at all.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::FileError;
use crate::atomic_file::{HIDDEN_SUFFIX, folder, hidden_prefix, sync_folder};

/// A hidden folder beside the target, which [`Self::commit`] renames to it. Dropped without commit, the hidden folder is
/// removed with what is in it, and the target stays as it was.
///
/// ```
/// use menagerie_files::AtomicFolder;
///
/// let around = tempfile::tempdir()?;
/// let target = around.path().join("model");
/// let folder = AtomicFolder::create(&target)?;
/// std::fs::write(folder.path().join("config.json"), "{}")?;
/// assert!(!target.exists());
/// folder.commit()?;
/// assert!(target.join("config.json").is_file());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct AtomicFolder {
    made: TempDir,
    target: PathBuf,
}

impl AtomicFolder {
    /// Begins a folder that will be at `target`, with the permissions of any new one.
    ///
    /// # Errors
    /// The path has no name, or the folder around it cannot be written.
    pub fn create(target: impl AsRef<Path>) -> Result<Self, FileError> {
        let target = target.as_ref();
        let Some(name) = target.file_name() else {
            let expected = "the path does not end in the name of a folder";
            return Err(FileError::no_name(target, "create the folder", expected));
        };
        let made =
            hidden(target, name).map_err(|source| FileError::new(target, "create the folder", source))?;
        Ok(Self { made, target: target.into() })
    }

    /// The hidden folder, to put files into.
    pub fn path(&self) -> &Path {
        self.made.path()
    }

    /// Renames the folder to its target; a folder that is there is replaced, and removed once the new one has its name.
    ///
    /// # Errors
    /// The target is no folder, or the system refuses; what was there stays then.
    pub fn commit(self) -> Result<(), FileError> {
        let Self { made, target } = self;
        let rename = |source| FileError::new(&target, "rename the finished folder to its name", source);
        let name = target.file_name().unwrap_or_default();
        let aside = match target.is_dir() {
            true => Some(hidden(&target, name).map_err(rename)?),
            false => None,
        };
        if let Some(aside) = &aside {
            std::fs::rename(&target, aside.path()).map_err(rename)?;
        }
        if let Err(error) = std::fs::rename(made.path(), &target) {
            if let Some(aside) = aside {
                std::fs::rename(aside.keep(), &target).map_err(rename)?;
            }
            return Err(rename(error));
        }
        // The name is another's now: nothing is left to remove under it.
        let _ = made.keep();
        sync_folder(&target).map_err(|source| FileError::new(&target, "write the folder to the disk", source))
    }
}

/// A new hidden folder beside a target.
fn hidden(target: &Path, name: &OsStr) -> std::io::Result<TempDir> {
    let prefix = hidden_prefix(name);
    let mut builder = tempfile::Builder::new();
    builder.prefix(&prefix).suffix(HIDDEN_SUFFIX);
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o777));
    builder
        .tempdir_in(folder(target))
        .map_err(|error| std::fs::metadata(folder(target)).err().unwrap_or(error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn nothing_is_left_of_a_folder_that_was_not_committed_and_the_old_one_of_one_that_was() {
        let around = tempfile::tempdir().unwrap();
        let target = around.path().join("model");
        fs::create_dir(&target).unwrap();
        fs::write(target.join("old"), "old").unwrap();
        let folder = AtomicFolder::create(&target).unwrap();
        fs::write(folder.path().join("new"), "new").unwrap();
        drop(folder);
        assert_eq!(fs::read_dir(around.path()).unwrap().count(), 1);
        assert!(target.join("old").is_file());
        let folder = AtomicFolder::create(&target).unwrap();
        fs::write(folder.path().join("new"), "new").unwrap();
        folder.commit().unwrap();
        assert_eq!(fs::read_dir(around.path()).unwrap().count(), 1);
        assert!(target.join("new").is_file() && !target.join("old").exists());
    }

    #[test]
    fn a_file_is_not_replaced() {
        let around = tempfile::tempdir().unwrap();
        let target = around.path().join("model");
        fs::write(&target, "file").unwrap();
        let said = AtomicFolder::create(&target).unwrap().commit().unwrap_err().to_string();
        assert!(said.contains("rename"), "{said}");
        assert_eq!(fs::read(&target).unwrap(), b"file");
        assert_eq!(fs::read_dir(around.path()).unwrap().count(), 1);
        assert!(AtomicFolder::create(around.path().join("absent/model")).is_err());
    }
}

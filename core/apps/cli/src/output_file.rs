//! [`OutputFile`]: a file that a command writes: whole or not at all, and never over something unasked.

use crate::failure::Failure;
use menagerie::gguf::AtomicFile;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Refuses a target that is one of the `inputs` or a folder, and one that exists unless `force` is given.
pub(crate) fn may_write(target: &Path, force: bool, inputs: &[&Path]) -> Result<(), Failure> {
    if target.is_dir() {
        return Err(Failure::about(target.display(), "is a folder; name a file in it"));
    }
    if let Some(input) = inputs.iter().find(|input| is_same_file(input, target)) {
        let reason = format!("is {}, which is being read; name another file to write", input.display());
        return Err(Failure::about(target.display(), reason));
    }
    if !force && target.symlink_metadata().is_ok() {
        return Err(Failure::about(target.display(), "exists; --force replaces it, or name another file"));
    }
    Ok(())
}

/// A file on its way; dropped before [`Self::commit`], it leaves nothing behind.
#[derive(Debug)]
pub(crate) struct OutputFile {
    file: AtomicFile,
    target: PathBuf,
    force: bool,
}

impl OutputFile {
    /// Begins a file; see [`may_write`].
    pub(crate) fn create(target: &Path, force: bool, inputs: &[&Path]) -> Result<Self, Failure> {
        may_write(target, force, inputs)?;
        Ok(Self { file: AtomicFile::create(target)?, target: target.to_owned(), force })
    }

    /// Gives the file its name.
    pub(crate) fn commit(self) -> Result<(), Failure> {
        // Somebody else may have made one meanwhile.
        may_write(&self.target, self.force, &[])?;
        Ok(self.file.commit()?)
    }
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.file.flush()
    }
}

/// Whether two paths lead to one file, through links of either kind.
fn is_same_file(one: &Path, other: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        if let (Ok(one), Ok(other)) = (one.metadata(), other.metadata()) {
            return (one.dev(), one.ino()) == (other.dev(), other.ino());
        }
    }
    matches!((one.canonicalize(), other.canonicalize()), (Ok(one), Ok(other)) if one == other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_input_is_never_replaced_and_other_files_only_when_asked() {
        let folder = tempfile::tempdir().unwrap();
        let (input, link) = (folder.path().join("in"), folder.path().join("link"));
        std::fs::write(&input, "input").unwrap();
        std::fs::hard_link(&input, &link).unwrap();
        for target in [&input, &link] {
            for force in [false, true] {
                assert!(OutputFile::create(target, force, &[&input]).is_err(), "{target:?} {force}");
            }
        }
        let other = folder.path().join("other");
        std::fs::write(&other, "old").unwrap();
        assert!(OutputFile::create(&other, false, &[&input]).is_err());
        let mut file = OutputFile::create(&other, true, &[&input]).unwrap();
        file.write_all(b"new").unwrap();
        assert_eq!(std::fs::read(&other).unwrap(), b"old");
        file.commit().unwrap();
        assert_eq!(std::fs::read(&other).unwrap(), b"new");
        assert_eq!(std::fs::read(&input).unwrap(), b"input");
    }

    #[test]
    fn what_is_not_committed_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("out");
        let mut file = OutputFile::create(&target, false, &[]).unwrap();
        file.write_all(b"half").unwrap();
        // Made by somebody else meanwhile: theirs stays.
        std::fs::write(&target, "theirs").unwrap();
        assert!(file.commit().is_err());
        assert_eq!(std::fs::read(&target).unwrap(), b"theirs");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}

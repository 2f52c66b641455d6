//! [`OutputFile`]: a file that a command writes, completely or not at all, and only over a file if that is allowed.

use crate::failure::Failure;
use crate::output;
use menagerie::files::{AtomicFile, path_text};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Whether the path is a device or a pipe, which is written to but never replaced.
pub(crate) fn is_device(target: &Path) -> bool {
    target.metadata().is_ok_and(|found| !found.is_file() && !found.is_dir())
}

/// Refuses a target that is one of the `inputs` or a folder, and a file that exists unless `force` is given.
pub(crate) fn may_write(target: &Path, force: bool, inputs: &[&Path]) -> Result<(), Failure> {
    if target.is_dir() {
        return Err(Failure::about(path_text(target), "is a folder; name a file in it"));
    }
    if let Some(folder) = target.parent().filter(|folder| !folder.as_os_str().is_empty() && !folder.is_dir())
    {
        let reason =
            format!("the folder {} does not exist; create it, or name another one", path_text(folder));
        return Err(Failure::about(path_text(target), reason));
    }
    if let Some(input) = inputs.iter().find(|input| is_same_file(input, target)) {
        let reason = format!("is the input {}; name another file for the output", path_text(input));
        return Err(Failure::about(path_text(target), reason));
    }
    if !force && !is_device(target) && target.symlink_metadata().is_ok() {
        return Err(Failure::about(path_text(target), "exists; --force replaces it, or name another file"));
    }
    Ok(())
}

/// Refuses a file that does not fit on its disk.
pub(crate) fn has_room(out: &Path, bytes: u64) -> Result<(), Failure> {
    let folder = out.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match fs4::available_space(folder) {
        Ok(free) if free < bytes => {
            let reason =
                format!("{} are required, but only {} are free", output::bytes(bytes), output::bytes(free));
            Err(Failure::about(path_text(out), reason)
                .with_help("free some space, or name a file on another disk"))
        }
        _ => Ok(()),
    }
}

/// An output file. If it is dropped before [`Self::commit`], nothing is left on disk.
#[derive(Debug)]
pub(crate) struct OutputFile {
    sink: FileSink,
    target: PathBuf,
    force: bool,
}

#[derive(Debug)]
enum FileSink {
    /// A file that gets its name when it is committed.
    File(AtomicFile),
    /// A device or a pipe, which exists already.
    Device(File),
}

impl OutputFile {
    /// Creates a file; see [`may_write`].
    pub(crate) fn create(target: &Path, force: bool, inputs: &[&Path]) -> Result<Self, Failure> {
        may_write(target, force, inputs)?;
        let sink = if is_device(target) {
            let opened = File::options().write(true).open(target);
            FileSink::Device(opened.map_err(|error| Failure::about(path_text(target), error))?)
        } else {
            FileSink::File(AtomicFile::create(target)?)
        };
        Ok(Self { sink, target: target.to_owned(), force })
    }

    /// Whether it is a device or a pipe.
    pub(crate) fn is_device(&self) -> bool {
        matches!(self.sink, FileSink::Device(_))
    }

    /// Gives the file its name.
    pub(crate) fn commit(self) -> Result<(), Failure> {
        let FileSink::File(file) = self.sink else { return Ok(()) };
        // Another process may have created the file meanwhile.
        may_write(&self.target, self.force, &[])?;
        Ok(file.commit()?)
    }
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match &mut self.sink {
            FileSink::File(file) => file.write(bytes),
            FileSink::Device(device) => device.write(bytes),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        match &mut self.sink {
            FileSink::File(file) => file.flush(),
            FileSink::Device(device) => device.flush(),
        }
    }
}

/// Whether two paths lead to the same file, through symbolic or hard links.
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
    fn a_disk_without_room_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out.gguf");
        assert!(has_room(&out, 1).is_ok());
        let said = format!("{:?}", has_room(&out, u64::MAX).unwrap_err());
        assert!(said.contains("are free") && said.contains("another disk"), "{said}");
    }

    #[test]
    fn what_is_not_committed_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("out");
        let mut file = OutputFile::create(&target, false, &[]).unwrap();
        file.write_all(b"half").unwrap();
        // A file that another process created meanwhile is kept.
        std::fs::write(&target, "theirs").unwrap();
        assert!(file.commit().is_err());
        assert_eq!(std::fs::read(&target).unwrap(), b"theirs");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    /// A pipe or a device must not be replaced by a file.
    #[test]
    #[cfg(unix)]
    fn a_pipe_is_written_to_and_stays() {
        use std::os::unix::fs::FileTypeExt;
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.expect("`mkfifo` is needed for this test").success());
        for force in [false, true] {
            let read = std::thread::spawn({
                let pipe = pipe.clone();
                move || std::fs::read(pipe).unwrap()
            });
            let mut file = OutputFile::create(&pipe, force, &[]).unwrap();
            assert!(file.is_device());
            file.write_all(b"gone").unwrap();
            file.commit().unwrap();
            assert_eq!(read.join().unwrap(), b"gone");
        }
        assert!(pipe.metadata().unwrap().file_type().is_fifo());
    }
}

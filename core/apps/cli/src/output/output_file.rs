//! [`OutputFile`]: a file that a command writes: whole or not at all, and never over something unasked.

use crate::failure::Failure;
use crate::output;
use menagerie::gguf::{AtomicFile, path_text};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Whether something is there that is neither file nor folder: a device or a pipe, which is written to, never replaced.
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
        let reason = format!("there is no folder {}; name another one", path_text(folder));
        return Err(Failure::about(path_text(target), reason));
    }
    if let Some(input) = inputs.iter().find(|input| is_same_file(input, target)) {
        let reason = format!("is {}, which is being read; name another file to write", path_text(input));
        return Err(Failure::about(path_text(target), reason));
    }
    if !force && !is_device(target) && target.symlink_metadata().is_ok() {
        return Err(Failure::about(path_text(target), "exists; --force replaces it, or name another file"));
    }
    Ok(())
}

/// Refuses a file that its disk has no room for.
pub(crate) fn has_room(out: &Path, bytes: u64) -> Result<(), Failure> {
    let folder = out.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match fs4::available_space(folder) {
        Ok(free) if free < bytes => {
            let reason =
                format!("{} are wanted, and {} are free there", output::bytes(bytes), output::bytes(free));
            Err(Failure::about(path_text(out), reason).with_help("free some, or name a file on another disk"))
        }
        _ => Ok(()),
    }
}

/// A file on its way; dropped before [`Self::commit`], it leaves nothing behind.
#[derive(Debug)]
pub(crate) struct OutputFile {
    sink: Sink,
    target: PathBuf,
    force: bool,
}

#[derive(Debug)]
enum Sink {
    /// A file that gets its name in the end.
    File(AtomicFile),
    /// What is there already, and stays.
    Device(File),
}

impl OutputFile {
    /// Begins a file; see [`may_write`].
    pub(crate) fn create(target: &Path, force: bool, inputs: &[&Path]) -> Result<Self, Failure> {
        may_write(target, force, inputs)?;
        let sink = if is_device(target) {
            let opened = File::options().write(true).open(target);
            Sink::Device(opened.map_err(|error| Failure::about(path_text(target), error))?)
        } else {
            Sink::File(AtomicFile::create(target)?)
        };
        Ok(Self { sink, target: target.to_owned(), force })
    }

    /// Whether it goes to a device or a pipe.
    pub(crate) fn is_device(&self) -> bool {
        matches!(self.sink, Sink::Device(_))
    }

    /// Gives the file its name.
    pub(crate) fn commit(self) -> Result<(), Failure> {
        let Sink::File(file) = self.sink else { return Ok(()) };
        // Somebody else may have made one meanwhile.
        may_write(&self.target, self.force, &[])?;
        Ok(file.commit()?)
    }
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match &mut self.sink {
            Sink::File(file) => file.write(bytes),
            Sink::Device(device) => device.write(bytes),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        match &mut self.sink {
            Sink::File(file) => file.flush(),
            Sink::Device(device) => device.flush(),
        }
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
    fn a_disk_without_room_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out.gguf");
        assert!(has_room(&out, 1).is_ok());
        let said = format!("{:?}", has_room(&out, u64::MAX).unwrap_err());
        assert!(said.contains("are free there") && said.contains("another disk"), "{said}");
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

    /// Replacing a pipe or a device by a file would take it from everybody.
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

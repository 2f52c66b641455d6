//! A file that appears whole or not at all.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::error::{GgufError, GgufErrorKind};

/// Writes to a hidden file beside the target, which [`Self::commit`] renames over the target; readers that have the
/// old file mapped keep it. Dropped without commit, the hidden file is removed and the target stays as it was.
#[derive(Debug)]
pub struct AtomicFile {
    writer: BufWriter<File>,
    hidden: PathBuf,
    target: PathBuf,
    committed: bool,
}

impl AtomicFile {
    /// Begins a file that will be at `target`. Errors: no file name, the folder cannot be written.
    pub fn create(target: &Path) -> Result<Self, GgufError> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let Some(name) = target.file_name() else {
            let kind = GgufErrorKind::write("the path does not end in a file name");
            return Err(GgufError::new(target.display().to_string(), kind));
        };
        let mut hidden = OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".{}-{}.part", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed)));
        let hidden = target.with_file_name(hidden);
        let file = File::options().write(true).create_new(true).open(&hidden);
        let file = file.map_err(|source| failed(&hidden, "create the file", source))?;
        let writer = BufWriter::with_capacity(1 << 20, file);
        Ok(Self { writer, hidden, target: target.into(), committed: false })
    }

    /// Makes the content durable and renames the file to its target.
    ///
    /// Errors: the disk is full, the target is a folder; the hidden file is removed then.
    pub fn commit(mut self) -> Result<(), GgufError> {
        self.writer.flush().map_err(|source| failed(&self.hidden, "write the file", source))?;
        let synced = self.writer.get_ref().sync_all();
        synced.map_err(|source| failed(&self.hidden, "write the file to the disk", source))?;
        fs::rename(&self.hidden, &self.target)
            .map_err(|source| failed(&self.target, "rename the finished file to its name", source))?;
        self.committed = true;
        sync_folder(&self.target)
            .map_err(|source| failed(&self.target, "write the folder to the disk", source))
    }
}

fn failed(path: &Path, action: &'static str, source: io::Error) -> GgufError {
    GgufError::new(path.display().to_string(), GgufErrorKind::io(action, source))
}

#[cfg(unix)]
fn sync_folder(target: &Path) -> io::Result<()> {
    let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match File::open(folder)?.sync_all() {
        // Some file systems cannot sync folders.
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
        other => other,
    }
}

#[cfg(not(unix))]
fn sync_folder(_target: &Path) -> io::Result<()> {
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

impl Drop for AtomicFile {
    fn drop(&mut self) {
        if !self.committed {
            let _ = fs::remove_file(&self.hidden);
        }
    }
}

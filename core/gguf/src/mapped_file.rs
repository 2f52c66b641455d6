//! [`MappedFile`]: the bytes of a file of any format, mapped like a GGUF file.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::GgufError;
use crate::file::OpenOptions;
use crate::storage::Storage;
use crate::tensor::TensorBytes;
use menagerie_files::path_text;

/// A file that is mapped or read into memory, for readers of other formats: with the same fault guard and the same
/// handles.
#[derive(Debug, Clone)]
pub struct MappedFile {
    path: PathBuf,
    storage: Arc<Storage>,
}

impl MappedFile {
    /// Opens a regular file; errors mention files with `extension` (`safetensors`).
    ///
    /// # Errors
    /// The file does not exist, is a directory, a pipe or a device, or cannot be mapped or read.
    pub fn open(path: impl AsRef<Path>, options: &OpenOptions, extension: &str) -> Result<Self, GgufError> {
        let path = path.as_ref();
        let storage = Storage::open(path, options.mmap, extension);
        let storage = storage.map_err(|kind| GgufError::new(path_text(path), kind))?;
        Ok(Self { path: path.into(), storage: Arc::new(storage) })
    }

    /// Bytes in memory; `name` is used as the path in errors.
    pub fn from_bytes(name: &str, bytes: Vec<u8>) -> Self {
        Self { path: name.into(), storage: Arc::new(Storage::Given(bytes)) }
    }

    /// The path it was opened by.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Size in bytes.
    pub fn bytes(&self) -> u64 {
        self.storage.bytes().len() as u64
    }

    /// A copy of a range, for a header that must not change; `None` if it is not inside the file.
    pub fn copied(&self, range: Range<usize>) -> Option<Vec<u8>> {
        self.storage.bytes().get(range).map(<[u8]>::to_vec)
    }

    /// A handle to a range, in bytes from the start of the file; `None` if it is not inside the file.
    pub fn range(&self, range: Range<u64>) -> Option<TensorBytes> {
        TensorBytes::new(&self.storage, range.start, range.end.checked_sub(range.start)?)
    }

    /// Whether a page vanished under the mapping, so that zeros were read. Cheap.
    pub fn poisoned(&self) -> bool {
        self.storage.poisoned()
    }

    /// Checks that the file is unchanged since it was opened; one system call.
    ///
    /// # Errors
    /// The mapped file is poisoned, became shorter, or was written to since it was opened.
    pub fn check_alive(&self) -> Result<(), GgufError> {
        let alive = self.storage.check_alive();
        alive.map_err(|kind| GgufError::new(path_text(&self.path), kind))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_inside_or_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.safetensors");
        std::fs::write(&path, b"0123456789").unwrap();
        for mmap in [true, false] {
            let file = MappedFile::open(&path, &OpenOptions { mmap }, "safetensors").unwrap();
            assert_eq!((file.bytes(), file.path()), (10, path.as_path()));
            assert_eq!(&*file.range(2..5).unwrap(), b"234");
            assert_eq!(file.copied(8..10).unwrap(), b"89");
            assert!(file.range(5..11).is_none() && file.copied(9..11).is_none());
            let backwards = Range { start: 5, end: 2 };
            assert!(file.range(backwards).is_none() && file.range(u64::MAX - 1..u64::MAX).is_none());
            file.check_alive().unwrap();
        }
        let missing = MappedFile::open(folder.path().join("b"), &OpenOptions::default(), "safetensors");
        let said = missing.unwrap_err().to_string();
        assert!(said.contains("this folder has a.safetensors"), "{said}");
        std::fs::write(&path, b"").unwrap();
        assert_eq!(MappedFile::open(&path, &OpenOptions::default(), "x").unwrap().bytes(), 0);
        let said = MappedFile::open(folder.path(), &OpenOptions::default(), "x").unwrap_err().to_string();
        assert!(said.contains("give the .x file itself"), "{said}");
    }

    #[test]
    fn a_file_that_was_cut_is_not_alive() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        std::fs::write(&path, [7; 100]).unwrap();
        let file = MappedFile::open(&path, &OpenOptions::default(), "x").unwrap();
        std::fs::File::options().write(true).open(&path).unwrap().set_len(50).unwrap();
        assert!(file.check_alive().unwrap_err().to_string().contains("truncated from 100 to 50"));
    }
}

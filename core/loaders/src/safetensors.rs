//! The safetensors container: one file, or the shards of a folder.
//!
//! The format: <https://github.com/huggingface/safetensors>, README, "Format". Every number of the header is compared
//! with the file's size before anything is allocated.

mod dtype;
mod error;
mod header;
mod shards;

#[cfg(test)]
mod tests;

use gguf_file::{MappedFile, OpenOptions, TensorBytes};
use std::collections::BTreeMap;
use std::path::Path;

pub use dtype::Dtype;
pub use error::{SafetensorsError, SafetensorsErrorKind};
pub use shards::{INDEX, Shards};

use error::Kind;

/// The header's entry for a tensor; its range lies inside its file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SafetensorsTensor {
    name: Box<str>,
    shape: Box<[u64]>,
    dtype: Dtype,
    offset: u64,
    bytes: u64,
}

impl SafetensorsTensor {
    /// The name, as in the file.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Elements per dimension, the contiguous one last; none for a single number.
    pub fn shape(&self) -> &[u64] {
        &self.shape
    }

    /// The type of the elements.
    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// The offset of the bytes from the start of the file.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The number of bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The number of elements.
    pub fn elements(&self) -> u64 {
        self.shape.iter().product()
    }
}

/// An open safetensors file. `Send` and `Sync`; its tensor handles are cheap to clone.
#[derive(Debug)]
pub struct SafetensorsFile {
    file: MappedFile,
    tensors: Vec<SafetensorsTensor>,
    /// Indices into `tensors`, by name.
    by_name: Vec<u32>,
    metadata: BTreeMap<String, String>,
}

impl SafetensorsFile {
    /// Opens a file, mapped or read into memory.
    ///
    /// # Errors
    /// Anything that is not a complete, consistent safetensors file: an invalid header, a duplicate name, a tensor
    /// whose number of bytes does not match its shape, tensors that overlap, leave gaps or end before or after the
    /// end of the file.
    pub fn open(path: impl AsRef<Path>, mmap: bool) -> Result<Self, SafetensorsError> {
        let path = path.as_ref();
        let file = MappedFile::open(path, &OpenOptions::default().with_mmap(mmap), "safetensors")?;
        Self::read(file)
    }

    /// Opens a whole file in memory; `name` is used as its path in errors.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn from_bytes(name: &str, bytes: Vec<u8>) -> Result<Self, SafetensorsError> {
        Self::read(MappedFile::from_bytes(name, bytes))
    }

    fn read(file: MappedFile) -> Result<Self, SafetensorsError> {
        let of = |kind: Kind| SafetensorsError::new(file.path(), kind);
        let header = header::read(&file).map_err(of)?;
        let by_name = header::by_name(&header.tensors).map_err(of)?;
        let header::SafetensorsHeader { tensors, metadata } = header;
        Ok(Self { file, tensors, by_name, metadata })
    }

    /// The path from which it was opened.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// The strings of `__metadata__`.
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        &self.metadata
    }

    /// All tensors, ordered by offset.
    pub fn tensors(&self) -> &[SafetensorsTensor] {
        &self.tensors
    }

    /// The tensor of this name.
    pub fn tensor(&self, name: &str) -> Option<&SafetensorsTensor> {
        let of = |index: &u32| self.tensors.get(*index as usize).map(SafetensorsTensor::name);
        let at = self.by_name.binary_search_by(|index| of(index).cmp(&Some(name))).ok()?;
        self.tensors.get(*self.by_name.get(at)? as usize)
    }

    /// The bytes of a tensor of this file.
    ///
    /// # Errors
    /// A tensor of another file, or a file that changed while it was mapped.
    pub fn data(&self, tensor: &SafetensorsTensor) -> Result<TensorBytes, SafetensorsError> {
        let bytes = self.file.range(tensor.offset..tensor.offset.saturating_add(tensor.bytes));
        let foreign = || {
            let kind = Kind::tensor(&tensor.name, "the tensor belongs to another file");
            SafetensorsError::new(self.file.path(), kind)
        };
        let bytes = bytes.ok_or_else(foreign)?;
        if bytes.poisoned() {
            self.check_alive()?;
        }
        Ok(bytes)
    }

    /// Size of the file in bytes.
    pub fn file_bytes(&self) -> u64 {
        self.file.bytes()
    }

    /// Whether a page of the mapping vanished, so that zeros were read. Cheap.
    pub fn poisoned(&self) -> bool {
        self.file.poisoned()
    }

    /// Checks that the file is unchanged since it was opened; one system call.
    ///
    /// # Errors
    /// The file became shorter, or was written to.
    pub fn check_alive(&self) -> Result<(), SafetensorsError> {
        Ok(self.file.check_alive()?)
    }
}

//! [`Reference`]: tensors of a `reference.safetensors`, made by another implementation.

use safetensors::{Dtype, SafeTensors};
use std::path::Path;

/// A file of expected values.
pub struct Reference {
    bytes: Vec<u8>,
    name: String,
}

/// A matrix of expected values.
#[derive(Clone, Debug)]
pub struct Rows {
    /// Columns.
    pub width: usize,
    /// Values, row after row.
    pub values: Vec<f32>,
}

impl Rows {
    /// One row.
    pub fn row(&self, index: usize) -> &[f32] {
        &self.values[index * self.width..(index + 1) * self.width]
    }

    /// How many rows.
    pub fn len(&self) -> usize {
        self.values.len() / self.width.max(1)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }
}

impl Reference {
    /// Reads a file.
    ///
    /// # Panics
    /// If it cannot be read.
    pub fn open(path: impl AsRef<Path>) -> Self {
        let path = path.as_ref();
        let bytes = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Self { bytes, name: path.display().to_string() }
    }

    fn parsed(&self) -> SafeTensors<'_> {
        SafeTensors::deserialize(&self.bytes).unwrap_or_else(|error| panic!("{}: {error}", self.name))
    }

    /// Names of the tensors.
    pub fn names(&self) -> Vec<String> {
        self.parsed().names().into_iter().map(|name| name.to_string()).collect()
    }

    /// Whether there is such a tensor.
    pub fn has(&self, name: &str) -> bool {
        self.parsed().tensor(name).is_ok()
    }

    /// An f32 tensor; its last dimension is the width.
    ///
    /// # Panics
    /// If there is no such tensor, or it is of another type.
    pub fn rows(&self, name: &str) -> Rows {
        let parsed = self.parsed();
        let tensor = parsed.tensor(name).unwrap_or_else(|error| panic!("{}: {name}: {error}", self.name));
        assert_eq!(tensor.dtype(), Dtype::F32, "{}: {name}", self.name);
        let values = tensor.data().as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes));
        Rows { width: tensor.shape().last().copied().unwrap_or(1), values: values.collect() }
    }

    /// An i64 tensor of token ids or positions.
    ///
    /// # Panics
    /// If there is no such tensor, it is of another type, or an id is negative.
    pub fn ids(&self, name: &str) -> Vec<u32> {
        let parsed = self.parsed();
        let tensor = parsed.tensor(name).unwrap_or_else(|error| panic!("{}: {name}: {error}", self.name));
        assert_eq!(tensor.dtype(), Dtype::I64, "{}: {name}", self.name);
        let ids = tensor.data().as_chunks::<8>().0.iter().map(|bytes| i64::from_le_bytes(*bytes));
        ids.map(|id| u32::try_from(id).unwrap_or_else(|_| panic!("{name}: id {id}"))).collect()
    }
}

//! [`Tensor`]: numbers of an adapter, as stored, and their reordering.

use gguf_file::GgmlType;
use menagerie_model::{Backend, ModelError, Weight, WeightBytes, WeightShape};
use std::sync::Arc;

/// A stack of matrices of plain numbers (F32, F16 or BF16), as the file has them; a vector is one matrix of one row.
#[derive(Clone)]
pub struct Tensor {
    /// Name in the file.
    pub name: String,
    /// Matrices, rows and columns.
    pub shape: WeightShape,
    /// Type of the numbers.
    pub block: GgmlType,
    bytes: WeightBytes,
}

impl std::fmt::Debug for Tensor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} {}", self.name, self.block, self.written_shape())
    }
}

impl Tensor {
    /// A tensor over these bytes.
    ///
    /// # Errors
    /// [`ModelError::Shape`] for bytes of another number; [`ModelError::Unsupported`] for blocks.
    pub fn new(
        name: &str,
        bytes: WeightBytes,
        block: GgmlType,
        shape: WeightShape,
    ) -> Result<Self, ModelError> {
        if block.block_len() != Some(1) {
            return Err(ModelError::Unsupported(format!(
                "tensor \"{name}\" is {block}: adapters are F32, F16 or BF16; convert it again without quantizing it"
            )));
        }
        Weight::new(name, bytes.clone(), block, shape)?;
        Ok(Self { name: name.to_owned(), shape, block, bytes })
    }

    /// A tensor of f32 made in memory.
    pub fn from_f32(name: &str, values: &[f32], shape: WeightShape) -> Self {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        Self {
            name: name.to_owned(),
            shape,
            block: GgmlType::F32,
            bytes: WeightBytes::Owned(Arc::new(bytes)),
        }
    }

    /// How many numbers there are.
    pub fn elements(&self) -> u64 {
        let WeightShape { count, rows, cols } = self.shape;
        (count * rows * cols) as u64
    }

    /// As a weight that a backend takes in.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn weight(&self) -> Result<Weight, ModelError> {
        Weight::new(&self.name, self.bytes.clone(), self.block, self.shape)
    }

    /// As a low-rank factor: a weight whose products with f32 activations are computed in f32. Backends round activations to
    /// bfloat16 for BF16 weights, so those numbers are widened; F16 is multiplied in f32 and stays as stored.
    ///
    /// # Errors
    /// As [`Self::new`]; numbers that are not finite.
    pub fn factor(&self, backend: &dyn Backend) -> Result<Weight, ModelError> {
        let weight = self.weight()?;
        if self.block != GgmlType::BF16 {
            return Ok(weight);
        }
        Weight::from_f32(&self.name, &backend.values(&weight)?, self.shape)
    }

    /// Bytes of [`Self::factor`].
    pub fn factor_bytes(&self) -> u64 {
        let element = if self.block == GgmlType::BF16 { size_of::<f32>() } else { self.element() };
        self.elements().saturating_mul(element as u64)
    }

    /// Bytes as stored.
    pub fn stored_bytes(&self) -> u64 {
        self.elements().saturating_mul(self.element() as u64)
    }

    /// `[E, rows, cols]` for people, without the parts that are 1.
    pub fn written_shape(&self) -> String {
        let WeightShape { count, rows, cols } = self.shape;
        match (count, rows) {
            (1, 1) => format!("[{cols}]"),
            (1, _) => format!("[{rows}, {cols}]"),
            _ => format!("[{count}, {rows}, {cols}]"),
        }
    }

    fn element(&self) -> usize {
        self.block.block_bytes().unwrap_or(1)
    }

    /// Rows by number, of every matrix.
    #[must_use]
    pub fn rows(&self, order: &[usize]) -> Self {
        let WeightShape { count, rows, cols } = self.shape;
        let width = cols * self.element();
        let from = self.bytes();
        let mut bytes = Vec::with_capacity(count * order.len() * width);
        for matrix in 0..count {
            for row in order {
                let at = (matrix * rows + row) * width;
                bytes.extend_from_slice(&from[at..at + width]);
            }
        }
        self.made(bytes, WeightShape { count, rows: order.len(), cols })
    }

    /// Columns by number, of every row.
    #[must_use]
    pub fn columns(&self, order: &[usize]) -> Self {
        let WeightShape { count, rows, cols } = self.shape;
        let (size, from) = (self.element(), self.bytes());
        let mut bytes = Vec::with_capacity(count * rows * order.len() * size);
        for row in 0..count * rows {
            for col in order {
                let at = (row * cols + col) * size;
                bytes.extend_from_slice(&from[at..at + size]);
            }
        }
        self.made(bytes, WeightShape { count, rows, cols: order.len() })
    }

    /// Every matrix turned.
    #[must_use]
    pub fn turned(&self) -> Self {
        let WeightShape { count, rows, cols } = self.shape;
        let (size, from) = (self.element(), self.bytes());
        let mut bytes = Vec::with_capacity(from.len());
        for matrix in 0..count {
            for col in 0..cols {
                for row in 0..rows {
                    let at = ((matrix * rows + row) * cols + col) * size;
                    bytes.extend_from_slice(&from[at..at + size]);
                }
            }
        }
        self.made(bytes, WeightShape { count, rows: cols, cols: rows })
    }

    /// The same numbers as another stack.
    ///
    /// # Errors
    /// [`ModelError::Shape`] if there are not as many numbers.
    pub fn reshaped(&self, shape: WeightShape) -> Result<Self, ModelError> {
        Self::new(&self.name, self.bytes.clone(), self.block, shape)
    }

    /// The same matrix for each of `count`.
    #[must_use]
    pub fn repeated(&self, count: usize) -> Self {
        self.made(self.bytes().repeat(count), WeightShape { count, ..self.shape })
    }

    fn made(&self, bytes: Vec<u8>, shape: WeightShape) -> Self {
        Self { name: self.name.clone(), shape, block: self.block, bytes: WeightBytes::Owned(Arc::new(bytes)) }
    }

    fn bytes(&self) -> &[u8] {
        self.bytes.as_slice()
    }
}

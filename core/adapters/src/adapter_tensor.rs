//! [`AdapterTensor`]: a tensor of an adapter as it is stored, and its reordering.

use gguf_file::GgmlType;
use menagerie_model::{Backend, ModelError, Weight, WeightBytes, WeightShape};
use std::sync::Arc;

/// A stack of matrices of F32, F16 or BF16 numbers, as stored. A vector is a matrix with one row.
#[derive(Clone)]
pub struct AdapterTensor {
    /// The name in the file.
    pub name: String,
    /// The numbers of matrices, rows and columns.
    pub shape: WeightShape,
    /// The type of the numbers.
    pub block: GgmlType,
    bytes: WeightBytes,
}

impl std::fmt::Debug for AdapterTensor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} {}", self.name, self.block, self.written_shape())
    }
}

impl AdapterTensor {
    /// A tensor over these bytes.
    ///
    /// # Errors
    /// [`ModelError::Shape`] if the number of bytes is wrong; [`ModelError::Unsupported`] for quantized types.
    pub(crate) fn new(
        name: &str,
        bytes: WeightBytes,
        block: GgmlType,
        shape: WeightShape,
    ) -> Result<Self, ModelError> {
        if block.block_len() != Some(1) {
            return Err(ModelError::Unsupported(format!(
                "tensor \"{name}\": expected F32, F16 or BF16, found {block}; convert the adapter again without \
                 quantizing it"
            )));
        }
        Weight::new(name, bytes.clone(), block, shape)?;
        Ok(Self { name: name.to_owned(), shape, block, bytes })
    }

    /// A tensor of f32 values.
    pub(crate) fn from_f32(name: &str, values: &[f32], shape: WeightShape) -> Self {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        Self {
            name: name.to_owned(),
            shape,
            block: GgmlType::F32,
            bytes: WeightBytes::Owned(Arc::new(bytes)),
        }
    }

    /// The number of elements.
    pub(crate) fn elements(&self) -> u64 {
        let WeightShape { count, rows, cols } = self.shape;
        (count * rows * cols) as u64
    }

    /// The tensor as a weight for a backend.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub(crate) fn weight(&self) -> Result<Weight, ModelError> {
        Weight::new(&self.name, self.bytes.clone(), self.block, self.shape)
    }

    /// The tensor as a low-rank factor: a weight whose products with f32 activations are computed in f32. Backends round
    /// activations to bfloat16 for BF16 weights, so BF16 becomes F32; F16 is multiplied in f32 and stays as stored.
    ///
    /// # Errors
    /// As [`Self::new`]; numbers that are not finite.
    pub(crate) fn factor(&self, backend: &dyn Backend) -> Result<Weight, ModelError> {
        let weight = self.weight()?;
        if self.block != GgmlType::BF16 {
            return Ok(weight);
        }
        Weight::from_f32(&self.name, &backend.values(&weight)?, self.shape)
    }

    /// Bytes of [`Self::factor`].
    pub(crate) fn factor_bytes(&self) -> u64 {
        let element = if self.block == GgmlType::BF16 { size_of::<f32>() } else { self.element() };
        self.elements().saturating_mul(element as u64)
    }

    /// Bytes as stored.
    pub(crate) fn stored_bytes(&self) -> u64 {
        self.elements().saturating_mul(self.element() as u64)
    }

    /// `[E, rows, cols]` as text, without dimensions that are 1.
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

    /// Every matrix with these of its rows, in this order.
    #[must_use]
    pub(crate) fn rows(&self, order: &[usize]) -> Self {
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

    /// Every matrix with these of its columns, in this order.
    #[must_use]
    pub(crate) fn columns(&self, order: &[usize]) -> Self {
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

    /// Every matrix transposed.
    #[must_use]
    pub(crate) fn transposed(&self) -> Self {
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

    /// The same numbers in another shape.
    ///
    /// # Errors
    /// [`ModelError::Shape`] if the number of elements differs.
    pub(crate) fn reshaped(&self, shape: WeightShape) -> Result<Self, ModelError> {
        Self::new(&self.name, self.bytes.clone(), self.block, shape)
    }

    /// A stack of `count` copies of the matrix.
    #[must_use]
    pub(crate) fn repeated(&self, count: usize) -> Self {
        self.made(self.bytes().repeat(count), WeightShape { count, ..self.shape })
    }

    fn made(&self, bytes: Vec<u8>, shape: WeightShape) -> Self {
        Self { name: self.name.clone(), shape, block: self.block, bytes: WeightBytes::Owned(Arc::new(bytes)) }
    }

    fn bytes(&self) -> &[u8] {
        self.bytes.as_slice()
    }
}

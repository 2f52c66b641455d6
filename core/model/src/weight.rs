//! [`Weight`]: a stored matrix, or a stack of them, as a view over shared bytes; never a candle tensor.

use crate::{ModelError, Result};
use gguf_file::TensorBytes;
use menagerie_kernels::{BlockType, Matrix};
use std::ops::Range;
use std::sync::Arc;

/// The bytes a weight looks at.
#[derive(Clone)]
pub enum WeightBytes {
    /// Bytes of a model file.
    Mapped(TensorBytes),
    /// Bytes made in memory.
    Owned(Arc<Vec<u8>>),
}

impl WeightBytes {
    fn as_slice(&self) -> &[u8] {
        match self {
            Self::Mapped(bytes) => bytes,
            Self::Owned(bytes) => bytes,
        }
    }
}

/// `count` matrices `[rows, cols]` of blocks in the file's own layout (`count` is 1 except for stacked experts).
///
/// A part of a fused matrix (q of `attn_qkv`) is a weight of its own over the same bytes.
#[derive(Clone)]
pub struct Weight {
    name: Arc<str>,
    bytes: WeightBytes,
    block: BlockType,
    count: usize,
    rows: usize,
    cols: usize,
    row_bytes: usize,
    /// Byte of the first row of the first matrix.
    start: usize,
    /// Bytes from one matrix to the next.
    stride: usize,
}

/// Number, rows and columns of the matrices in a weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WeightShape {
    /// Matrices, slowest.
    pub count: usize,
    /// Rows of each: outputs.
    pub rows: usize,
    /// Columns of each: inputs, fastest.
    pub cols: usize,
}

impl Weight {
    /// A view of all of `bytes`. `name` is the tensor's, for messages.
    ///
    /// # Errors
    /// [`ModelError::Shape`] if rows are no whole number of blocks, or the bytes are not as many as the shape says.
    pub fn new(name: &str, bytes: WeightBytes, block: BlockType, shape: WeightShape) -> Result<Self> {
        let WeightShape { count, rows, cols } = shape;
        let shape_error = |expected: String, found: String| {
            Err(ModelError::Shape { what: format!("tensor \"{name}\""), expected, found })
        };
        let Some(row_bytes) = block.row_bytes(cols) else {
            let expected = format!("rows of whole {} blocks of {}", block.name(), block.block_len());
            return shape_error(expected, format!("rows of {cols}"));
        };
        let stride = row_bytes.checked_mul(rows);
        let found = bytes.as_slice().len();
        match stride.and_then(|stride| Some((stride, stride.checked_mul(count)?))) {
            Some((stride, total)) if total == found => {
                Ok(Self { name: name.into(), bytes, block, count, rows, cols, row_bytes, start: 0, stride })
            }
            _ => shape_error(format!("{count} x {rows} rows of {row_bytes} bytes"), format!("{found} bytes")),
        }
    }

    /// A matrix `[rows, cols]` of f32 made in memory.
    ///
    /// # Errors
    /// [`ModelError::Shape`] if there are not `rows * cols` values.
    pub fn from_f32(name: &str, values: &[f32], rows: usize, cols: usize) -> Result<Self> {
        Self::stack_from_f32(name, values, WeightShape { count: 1, rows, cols })
    }

    /// A stack of matrices of f32 made in memory.
    ///
    /// # Errors
    /// [`ModelError::Shape`] if there are not as many values as the shape says.
    pub fn stack_from_f32(name: &str, values: &[f32], shape: WeightShape) -> Result<Self> {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        Self::new(name, WeightBytes::Owned(Arc::new(bytes)), BlockType::F32, shape)
    }

    /// Rows `range` of every matrix, over the same bytes.
    ///
    /// # Errors
    /// [`ModelError::Shape`] if the range is not inside the rows.
    pub fn row_range(&self, range: Range<usize>) -> Result<Self> {
        if range.start > range.end || range.end > self.rows {
            return Err(ModelError::Shape {
                what: format!("tensor \"{}\"", self.name),
                expected: format!("at least {} rows", range.end),
                found: format!("{} rows", self.rows),
            });
        }
        let start = self.start + range.start * self.row_bytes;
        Ok(Self { rows: range.len(), start, ..self.clone() })
    }

    /// The tensor's name, for messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Type of the blocks.
    pub fn block(&self) -> BlockType {
        self.block
    }

    /// Matrices in the stack.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Rows of a matrix: outputs.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Columns of a matrix: inputs.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Bytes the weight looks at.
    pub fn byte_len(&self) -> usize {
        self.count * self.rows * self.row_bytes
    }

    /// The matrix `index` of the stack, `[rows, cols]`.
    ///
    /// # Errors
    /// [`ModelError::Shape`] past the last one.
    pub fn matrix(&self, index: usize) -> Result<Matrix<'_>> {
        let start = self.start + index * self.stride;
        let bytes = self.bytes.as_slice().get(start..start + self.rows * self.row_bytes);
        let (Some(bytes), true) = (bytes, index < self.count) else {
            return Err(ModelError::Shape {
                what: format!("tensor \"{}\"", self.name),
                expected: format!("more than {index} matrices"),
                found: format!("{} matrices", self.count),
            });
        };
        Ok(Matrix::new(self.block, self.rows, self.cols, bytes)?)
    }

    /// Every value as f32, in the order of the file.
    ///
    /// # Errors
    /// What the dequantiser returns.
    pub fn to_f32(&self) -> Result<Vec<f32>> {
        let mut values = vec![0.0; self.count * self.rows * self.cols];
        let size = self.rows * self.cols;
        for index in 0..self.count {
            let bytes = self.matrix(index)?.bytes();
            menagerie_kernels::dequantise(self.block, bytes, &mut values[index * size..(index + 1) * size])?;
        }
        Ok(values)
    }
}

impl std::fmt::Debug for Weight {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} [{}, {}, {}]", self.name, self.block.name(), self.count, self.rows, self.cols)
    }
}

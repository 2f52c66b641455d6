//! [`Weight`]: a stored matrix, or a stack of them, as a view over shared bytes; backends load it.

use crate::param::WeightShape;
use crate::{ModelError, Result};
use gguf_file::{GgmlType, TensorBytes};
use std::ops::Range;
use std::sync::Arc;

/// The bytes of a weight.
#[derive(Clone)]
pub enum WeightBytes {
    /// Bytes of a model file.
    Mapped(TensorBytes),
    /// Bytes made in memory.
    Owned(Arc<Vec<u8>>),
}

impl WeightBytes {
    /// A copy in memory, if the bytes are in a file.
    fn in_memory(&self) -> Self {
        match self {
            Self::Mapped(bytes) => Self::Owned(Arc::new(bytes.to_vec())),
            Self::Owned(bytes) => Self::Owned(Arc::clone(bytes)),
        }
    }

    /// All of them.
    pub fn as_slice(&self) -> &[u8] {
        match self {
            Self::Mapped(bytes) => bytes,
            Self::Owned(bytes) => bytes,
        }
    }
}

/// Where the matrices of a weight are.
#[derive(Clone)]
enum MatrixPlaces {
    /// One after the other.
    Together(WeightBytes),
    /// Each in its own bytes: experts that a file stores separately.
    Apart(Arc<[WeightBytes]>),
}

impl MatrixPlaces {
    /// The bytes of a matrix, and where in them it begins.
    fn around(&self, matrix: usize, stride: usize) -> Option<(&[u8], usize)> {
        match self {
            Self::Together(bytes) => Some((bytes.as_slice(), matrix.checked_mul(stride)?)),
            Self::Apart(parts) => Some((parts.get(matrix)?.as_slice(), 0)),
        }
    }

    /// Whether they are `count` matrices of `stride` bytes.
    fn are(&self, count: usize, stride: usize) -> bool {
        match self {
            Self::Together(bytes) => stride.checked_mul(count) == Some(bytes.as_slice().len()),
            Self::Apart(parts) => {
                parts.len() == count && parts.iter().all(|part| part.as_slice().len() == stride)
            }
        }
    }

    /// A description of the bytes, for messages.
    fn described(&self) -> String {
        match self {
            Self::Together(bytes) => format!("{} bytes", bytes.as_slice().len()),
            Self::Apart(parts) => {
                let sizes: Vec<usize> = parts.iter().map(|part| part.as_slice().len()).take(4).collect();
                format!("{} parts, the first of {sizes:?} bytes", parts.len())
            }
        }
    }
}

/// `count` matrices `[rows, cols]` of blocks in the file's own layout (`count` is 1 except for stacked experts).
///
/// A part of a fused matrix (q of `attn_qkv`) is a separate weight over the same bytes.
#[derive(Clone)]
pub struct Weight {
    name: Arc<str>,
    bytes: MatrixPlaces,
    block: GgmlType,
    shape: WeightShape,
    row_bytes: usize,
    /// Byte of the first row of the first matrix.
    start: usize,
    /// Bytes from one matrix to the next.
    stride: usize,
}

impl Weight {
    /// A view of all of `bytes`. `name` is the tensor's, for messages.
    ///
    /// # Errors
    /// [`ModelError::Shape`] if the type's blocks are unknown, rows are not whole blocks, or the number of bytes
    /// differs from the shape.
    pub fn new(name: &str, bytes: WeightBytes, block: GgmlType, shape: WeightShape) -> Result<Self> {
        Self::over(name, MatrixPlaces::Together(bytes), block, shape)
    }

    /// A stack of matrices that are stored separately, each in one of `parts`.
    ///
    /// # Errors
    /// As [`Weight::new`], of each part.
    pub fn apart(name: &str, parts: Vec<WeightBytes>, block: GgmlType, shape: WeightShape) -> Result<Self> {
        Self::over(name, MatrixPlaces::Apart(parts.into()), block, shape)
    }

    fn over(name: &str, bytes: MatrixPlaces, block: GgmlType, shape: WeightShape) -> Result<Self> {
        let WeightShape { count, rows, cols } = shape;
        let shape_error = |expected: String, found: String| {
            Err(ModelError::Shape { what: format!("tensor \"{name}\""), expected, found })
        };
        let (Some(block_len), Some(block_bytes)) = (block.block_len(), block.block_bytes()) else {
            return shape_error("a known block type".to_owned(), block.to_string());
        };
        if !cols.is_multiple_of(block_len) {
            let expected = format!("rows of whole {block} blocks of {block_len}");
            return shape_error(expected, format!("rows of {cols}"));
        }
        let row_bytes = cols / block_len * block_bytes;
        match row_bytes.checked_mul(rows) {
            Some(stride) if bytes.are(count, stride) => {
                Ok(Self { name: name.into(), bytes, block, shape, row_bytes, start: 0, stride })
            }
            _ => shape_error(format!("{count} x {rows} rows of {row_bytes} bytes"), bytes.described()),
        }
    }

    /// A stack of matrices of f32 made in memory.
    ///
    /// # Errors
    /// [`ModelError::Shape`] if the number of values differs from the shape.
    pub fn from_f32(name: &str, values: &[f32], shape: WeightShape) -> Result<Self> {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        Self::new(name, WeightBytes::Owned(Arc::new(bytes)), GgmlType::F32, shape)
    }

    /// Rows `range` of every matrix, over the same bytes.
    ///
    /// # Errors
    /// [`ModelError::Shape`] if the range is not inside the rows.
    pub fn row_range(&self, range: Range<usize>) -> Result<Self> {
        if range.start > range.end || range.end > self.shape.rows {
            return Err(ModelError::Shape {
                what: format!("tensor \"{}\"", self.name),
                expected: format!("at least {} rows", range.end),
                found: format!("{} rows", self.shape.rows),
            });
        }
        let start = self.start + range.start * self.row_bytes;
        Ok(Self { shape: WeightShape { rows: range.len(), ..self.shape }, start, ..self.clone() })
    }

    /// The same rows as a stack of `count` matrices, or as one matrix, over the same bytes.
    ///
    /// # Errors
    /// [`ModelError::Shape`] if the rows do not divide evenly, or are not adjacent.
    pub fn as_stack(&self, count: usize) -> Result<Self> {
        let WeightShape { count: before, rows, cols } = self.shape;
        let all = before * rows;
        let apart = matches!(self.bytes, MatrixPlaces::Apart(_)) && count != before;
        if count == 0 || apart || !all.is_multiple_of(count) || self.stride != rows * self.row_bytes {
            return Err(ModelError::Shape {
                what: format!("tensor \"{}\"", self.name),
                expected: format!("consecutive rows of {count} matrices"),
                found: format!("{before} matrices of {rows} rows"),
            });
        }
        let rows = all / count;
        let stride = rows * self.row_bytes;
        Ok(Self { shape: WeightShape { count, rows, cols }, stride, ..self.clone() })
    }

    /// The same in its own memory, if it is in a file.
    pub fn in_memory(&self) -> Self {
        let bytes = match &self.bytes {
            MatrixPlaces::Together(bytes) => MatrixPlaces::Together(bytes.in_memory()),
            MatrixPlaces::Apart(parts) => {
                MatrixPlaces::Apart(parts.iter().map(WeightBytes::in_memory).collect())
            }
        };
        Self { bytes, ..self.clone() }
    }

    /// Every matrix of a stack transposed, as f32 in memory; `values` are those of the weight.
    ///
    /// # Errors
    /// [`ModelError::Shape`] if the number of values differs from the shape.
    pub fn turned(&self, values: &[f32]) -> Result<Self> {
        let WeightShape { count, rows, cols } = self.shape;
        let mut turned = vec![0.0; values.len()];
        let matrices = values.chunks_exact((rows * cols).max(1));
        for (to, from) in turned.chunks_exact_mut((rows * cols).max(1)).zip(matrices) {
            for (row, line) in from.chunks_exact(cols.max(1)).enumerate() {
                line.iter().enumerate().for_each(|(col, value)| to[col * rows + row] = *value);
            }
        }
        Self::from_f32(&self.name, &turned, WeightShape { count, rows: cols, cols: rows })
    }

    /// The tensor's name, for messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Refuses values of this weight that are NaN or infinite. Vectors are few and are read when a model is assembled,
    /// so a damaged file is reported then, with the tensor's name.
    ///
    /// # Errors
    /// [`ModelError::Weights`] names the tensor and the first such value.
    pub fn expect_finite(&self, values: &[f32]) -> Result<()> {
        let Some(at) = values.iter().position(|value| !value.is_finite()) else { return Ok(()) };
        Err(ModelError::Weights(format!(
            "value {at} of tensor \"{}\" is {}: the file is damaged; check its checksum and fetch it again",
            self.name, values[at]
        )))
    }

    /// Type of the blocks.
    pub fn block(&self) -> GgmlType {
        self.block
    }

    /// Bytes of all its matrices.
    pub fn stored_bytes(&self) -> u64 {
        (self.shape.count as u64).saturating_mul(self.shape.rows as u64).saturating_mul(self.row_bytes as u64)
    }

    /// Matrices, rows and columns.
    pub fn shape(&self) -> WeightShape {
        self.shape
    }

    /// The blocks of the matrix `index` of the stack, row after row.
    ///
    /// # Errors
    /// [`ModelError::Shape`] past the last one.
    pub fn matrix(&self, index: usize) -> Result<&[u8]> {
        let bytes = self.bytes.around(index, self.stride).and_then(|(bytes, first)| {
            let start = first.checked_add(self.start)?;
            bytes.get(start..start.checked_add(self.shape.rows * self.row_bytes)?)
        });
        match (bytes, index < self.shape.count) {
            (Some(bytes), true) => Ok(bytes),
            _ => Err(ModelError::Shape {
                what: format!("tensor \"{}\"", self.name),
                expected: format!("more than {index} matrices"),
                found: format!("{} matrices", self.shape.count),
            }),
        }
    }
}

impl std::fmt::Debug for Weight {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let WeightShape { count, rows, cols } = self.shape;
        write!(f, "{} {} [{count}, {rows}, {cols}]", self.name, self.block)
    }
}

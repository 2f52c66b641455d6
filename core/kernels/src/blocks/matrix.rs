//! A matrix of weight blocks as it lies in the file.

use std::ops::Range;

use super::BlockType;
use crate::KernelError;

/// The most bytes of a row if there are several: kernels address the 16 rows of a tile by 32-bit offsets.
const LONGEST_ROW: usize = i32::MAX as usize / 15;

/// Row-major blocks `[rows, cols]` in file layout, `cols` contiguous; a view, never a copy.
#[derive(Clone, Copy, Debug)]
pub struct Matrix<'a> {
    block: BlockType,
    rows: usize,
    cols: usize,
    row_bytes: usize,
    bytes: &'a [u8],
}

impl<'a> Matrix<'a> {
    /// Views `bytes` as `rows` rows of `cols` values.
    ///
    /// # Errors
    /// [`KernelError::Shape`]: blocks do not divide `cols`, `bytes` is not exactly `rows` rows, or several rows are
    /// longer than 136 MiB.
    pub fn new(block: BlockType, rows: usize, cols: usize, bytes: &'a [u8]) -> Result<Self, KernelError> {
        let Some(row_bytes) = block.row_bytes(cols) else {
            return Err(KernelError::shape(
                "Matrix::new",
                format!(
                    "{cols} columns are not a multiple of {}'s blocks of {}",
                    block.name(),
                    block.block_len()
                ),
            ));
        };
        if row_bytes.checked_mul(rows) != Some(bytes.len()) {
            return Err(KernelError::shape(
                "Matrix::new",
                format!(
                    "{rows} rows of {cols} {} values take {row_bytes} bytes each, but {} bytes were given",
                    block.name(),
                    bytes.len()
                ),
            ));
        }
        if rows > 1 && row_bytes > LONGEST_ROW {
            let detail = format!(
                "a row of {row_bytes} bytes; matrices with rows up to {LONGEST_ROW} bytes can be multiplied"
            );
            return Err(KernelError::shape("Matrix::new", detail));
        }
        Ok(Matrix { block, rows, cols, row_bytes, bytes })
    }

    /// The type of the blocks.
    pub fn block(&self) -> BlockType {
        self.block
    }

    /// The number of rows (outputs).
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The number of values per row (inputs).
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// The number of bytes per row.
    pub fn row_bytes(&self) -> usize {
        self.row_bytes
    }

    /// All blocks, row after row.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The blocks of one row; empty if there is no such row.
    pub fn row(&self, row: usize) -> &'a [u8] {
        let start = row.saturating_mul(self.row_bytes);
        self.bytes.get(start..start.saturating_add(self.row_bytes)).unwrap_or(&[])
    }

    /// The rows `range`, limited to the rows that exist.
    pub fn rows_range(self, range: Range<usize>) -> Matrix<'a> {
        let end = range.end.min(self.rows);
        let start = range.start.min(end);
        let bytes = &self.bytes[start * self.row_bytes..end * self.row_bytes];
        Matrix { rows: end - start, bytes, ..self }
    }
}

//! [`Encoder`]: from rows of f32 to blocks of one type.

use std::sync::atomic::{AtomicUsize, Ordering};

use gguf_file::GgmlType;
use menagerie_kernels::{BlockType, Cpu, encode, largest_encodable, needs_importance};

use crate::QuantizeError;

/// Values in one task of a thread.
const TASK_VALUES: usize = 1 << 15;

/// Encodes rows of f32 as blocks of one type. The bytes depend neither on the number of threads nor on the processor.
#[derive(Debug, Clone)]
pub struct Encoder {
    kind: GgmlType,
    block: BlockType,
    cpu: Cpu,
}

impl Encoder {
    /// An encoder for a type, over the threads of `cpu`.
    ///
    /// # Errors
    /// [`QuantizeError::Unsupported`]: there is no encoder for the type; the error lists the supported types.
    pub fn new(kind: GgmlType, cpu: &Cpu) -> Result<Encoder, QuantizeError> {
        match BlockType::from_ggml_id(kind.id()) {
            Some(block) => Ok(Encoder { kind, block, cpu: cpu.clone() }),
            None => {
                let types: Vec<&str> = Encoder::kinds().map(GgmlType::name).collect();
                Err(QuantizeError::Unsupported { kind, types: types.join(", ") })
            }
        }
    }

    /// The supported types, by id.
    pub fn kinds() -> impl Iterator<Item = GgmlType> {
        GgmlType::known().filter(|kind| BlockType::from_ggml_id(kind.id()).is_some())
    }

    /// Whether the type requires importance because of its few bits.
    pub fn needs_importance(&self) -> bool {
        needs_importance(self.block)
    }

    /// The bytes of `rows` rows of `cols` values.
    ///
    /// # Errors
    /// [`QuantizeError::Blocks`]: rows that are not whole blocks.
    pub fn bytes(&self, rows: usize, cols: usize) -> Result<usize, QuantizeError> {
        let bytes = self.block.row_bytes(cols).and_then(|row| row.checked_mul(rows));
        bytes.ok_or(QuantizeError::Blocks { kind: self.kind, cols, block: self.block.block_len() })
    }

    /// Encodes rows of `cols` values to `out`, whose length is [`Encoder::bytes`]. `importance` has the mean square of
    /// the activations for each column. If it is 0 for a whole row or block, this row or block is encoded as without
    /// importance.
    ///
    /// # Errors
    /// [`QuantizeError::MissingImportance`]: the type requires importance. [`QuantizeError::Blocks`] and
    /// [`QuantizeError::Length`]: rows that are not whole blocks, wrong lengths. [`QuantizeError::NotFinite`],
    /// [`QuantizeError::TooLarge`], [`QuantizeError::Importance`]: invalid values. The content of `out` is then
    /// undefined.
    pub fn encode(
        &self,
        values: &[f32],
        cols: usize,
        importance: Option<&[f32]>,
        out: &mut [u8],
    ) -> Result<(), QuantizeError> {
        if cols == 0 || !values.len().is_multiple_of(cols) {
            let expected = format!("whole rows of {cols}");
            return Err(QuantizeError::Length { what: "values", found: values.len(), expected });
        }
        let bytes = self.bytes(values.len() / cols, cols)?;
        if out.len() != bytes {
            let expected = format!("{bytes} bytes");
            return Err(QuantizeError::Length { what: "output", found: out.len(), expected });
        }
        self.check_importance(cols, importance)?;
        self.check_values(values, cols)?;
        encode(&self.cpu, self.block, cols, values, importance, out)?;
        Ok(())
    }

    fn check_importance(&self, cols: usize, importance: Option<&[f32]>) -> Result<(), QuantizeError> {
        let Some(importance) = importance else {
            if self.needs_importance() {
                return Err(QuantizeError::needs_importance(self.kind));
            }
            return Ok(());
        };
        if importance.len() != cols {
            let expected = format!("one for each of {cols} columns");
            return Err(QuantizeError::Length { what: "importance", found: importance.len(), expected });
        }
        match importance.iter().position(|v| !(v.is_finite() && *v >= 0.0)) {
            Some(column) => Err(QuantizeError::Importance { column, value: importance[column] }),
            None => Ok(()),
        }
    }

    /// Checks that blocks can represent every value. The error names the first that they cannot.
    fn check_values(&self, values: &[f32], cols: usize) -> Result<(), QuantizeError> {
        let (largest, first) = (largest_encodable(self.block), AtomicUsize::new(usize::MAX));
        self.cpu.pool().run(values.len().div_ceil(TASK_VALUES), &|task| {
            let begin = task * TASK_VALUES;
            let piece = &values[begin..(begin + TASK_VALUES).min(values.len())];
            // Comparisons with NaN are false. Counting is vectorized, which searching is not.
            let inside = piece.iter().filter(|v| v.abs() <= largest).count();
            if inside < piece.len() {
                let at = piece.iter().position(|v| v.is_nan() || v.abs() > largest).unwrap_or_default();
                first.fetch_min(begin + at, Ordering::Relaxed);
            }
        })?;
        let at = first.into_inner();
        let Some(&value) = values.get(at) else { return Ok(()) };
        let (row, column) = (at / cols, at % cols);
        if value.is_finite() {
            return Err(QuantizeError::TooLarge { kind: self.kind, row, column, value, largest });
        }
        Err(QuantizeError::NotFinite { row, column, value })
    }
}

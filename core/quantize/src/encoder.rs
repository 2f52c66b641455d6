//! [`Encoder`]: rows of f32 to blocks of one type.

use std::sync::atomic::{AtomicUsize, Ordering};

use gguf_file::GgmlType;
use menagerie_kernels::{BlockType, Cpu, encode, largest_encodable, needs_importance};

use crate::QuantizeError;

/// Values that one thread looks at before it takes more.
const PIECE: usize = 1 << 15;

/// Writes rows of f32 as blocks of one type. The bytes depend neither on the number of threads nor on the processor.
#[derive(Debug, Clone)]
pub struct Encoder {
    kind: GgmlType,
    block: BlockType,
    cpu: Cpu,
}

impl Encoder {
    /// An encoder for a type that works on the threads of `cpu`.
    ///
    /// # Errors
    /// [`QuantizeError::Unsupported`]: no weights can be written in that type; the error lists those that can.
    pub fn new(kind: GgmlType, cpu: &Cpu) -> Result<Encoder, QuantizeError> {
        match BlockType::from_ggml_id(kind.id()) {
            Some(block) => Ok(Encoder { kind, block, cpu: cpu.clone() }),
            None => {
                let types: Vec<&str> = Encoder::kinds().map(GgmlType::name).collect();
                Err(QuantizeError::Unsupported { kind, types: types.join(", ") })
            }
        }
    }

    /// Every type that weights can be written in, by id.
    pub fn kinds() -> impl Iterator<Item = GgmlType> {
        GgmlType::known().filter(|kind| BlockType::from_ggml_id(kind.id()).is_some())
    }

    /// The type.
    pub fn kind(&self) -> GgmlType {
        self.kind
    }

    /// Whether the type is refused without importance: it has too few bits to spend them evenly.
    pub fn needs_importance(&self) -> bool {
        needs_importance(self.block)
    }

    /// The bytes of `rows` rows of `cols` values.
    ///
    /// # Errors
    /// [`QuantizeError::Blocks`]: rows that are no whole blocks.
    pub fn bytes(&self, rows: usize, cols: usize) -> Result<usize, QuantizeError> {
        let bytes = self.block.row_bytes(cols).and_then(|row| row.checked_mul(rows));
        bytes.ok_or(QuantizeError::Blocks { kind: self.kind, cols, block: self.block.block_len() })
    }

    /// Encodes rows of `cols` values to `out`, which has [`Encoder::bytes`]. `importance` has a weight for each column (the
    /// mean square of the activations that meet it), for all rows; where all are 0, or all of a block, weights count as without.
    ///
    /// # Errors
    /// [`QuantizeError::NeedsImportance`]: the type is refused without. [`QuantizeError::Blocks`] and
    /// [`QuantizeError::Length`]: rows that are no whole blocks, lengths that do not fit. [`QuantizeError::NotFinite`],
    /// [`QuantizeError::TooLarge`], [`QuantizeError::Importance`]: a value that cannot be. `out` is not to be used then.
    pub fn encode(
        &self,
        values: &[f32],
        cols: usize,
        importance: Option<&[f32]>,
        out: &mut [u8],
    ) -> Result<(), QuantizeError> {
        if cols == 0 || !values.len().is_multiple_of(cols) {
            let wanted = format!("whole rows of {cols}");
            return Err(QuantizeError::Length { what: "values", found: values.len(), wanted });
        }
        let bytes = self.bytes(values.len() / cols, cols)?;
        if out.len() != bytes {
            let wanted = format!("{bytes} bytes");
            return Err(QuantizeError::Length { what: "output", found: out.len(), wanted });
        }
        self.check_importance(cols, importance)?;
        self.check_values(values, cols)?;
        encode(&self.cpu, self.block, cols, values, importance, out)?;
        Ok(())
    }

    fn check_importance(&self, cols: usize, importance: Option<&[f32]>) -> Result<(), QuantizeError> {
        let Some(importance) = importance else {
            if self.needs_importance() {
                return Err(QuantizeError::NeedsImportance { kind: self.kind, instead: GgmlType::IQ1_M });
            }
            return Ok(());
        };
        if importance.len() != cols {
            let wanted = format!("one for each of {cols} columns");
            return Err(QuantizeError::Length { what: "importance", found: importance.len(), wanted });
        }
        match importance.iter().position(|v| !(v.is_finite() && *v >= 0.0)) {
            Some(column) => Err(QuantizeError::Importance { column, value: importance[column] }),
            None => Ok(()),
        }
    }

    /// Refuses what no block can hold; it names the first such weight.
    fn check_values(&self, values: &[f32], cols: usize) -> Result<(), QuantizeError> {
        let (largest, first) = (largest_encodable(self.block), AtomicUsize::new(usize::MAX));
        self.cpu.pool().run(values.len().div_ceil(PIECE), &|task| {
            let begin = task * PIECE;
            let piece = &values[begin..(begin + PIECE).min(values.len())];
            // A comparison with what is no number is false. Counted, not searched: that is vectors at work.
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

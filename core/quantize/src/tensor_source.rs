//! [`TensorSource`]: quantizes a stored tensor in parts.

use crate::encoder::Encoder;
use crate::error::QuantizeError;
use gguf_file::GgmlType;
use menagerie_kernels::{BlockType, Cpu, dequantize};

/// Most values that are in memory as f32 at a time.
const PART_VALUES: usize = 1 << 24;

/// Values in one task of a thread.
const TASK_VALUES: usize = 1 << 15;

/// A stored tensor of `count` matrices `[rows, cols]`.
#[derive(Clone, Copy)]
pub struct TensorSource<'a> {
    /// The name, for messages.
    pub name: &'a str,
    /// Its type.
    pub kind: GgmlType,
    /// The blocks of all matrices.
    pub bytes: &'a [u8],
    /// Number of matrices.
    pub count: usize,
    /// Rows of a matrix.
    pub rows: usize,
    /// Columns of a matrix.
    pub cols: usize,
}

impl TensorSource<'_> {
    /// Encodes the tensor over the threads of `cpu`, and passes the blocks to `take` in parts, in order. `importance` is
    /// `[count * cols]` or absent. The bytes do not depend on the number of threads.
    ///
    /// # Errors
    /// [`QuantizeError::InTensor`]: an unsupported type, values that the type cannot represent. Errors of `take`.
    pub fn encode<E: From<QuantizeError>>(
        &self,
        cpu: &Cpu,
        target: GgmlType,
        importance: Option<&[f32]>,
        take: &mut dyn FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let about = |error| E::from(self.about(error));
        let source = BlockType::from_ggml_id(self.kind.id());
        let source = source.ok_or_else(|| about(QuantizeError::Unreadable { kind: self.kind }))?;
        let encoder = Encoder::new(target, cpu).map_err(about)?;
        let row_bytes = source.row_bytes(self.cols);
        let row_bytes = row_bytes
            .filter(|row| row.checked_mul(self.rows * self.count) == Some(self.bytes.len()))
            .ok_or_else(|| {
                about(QuantizeError::Blocks { kind: self.kind, cols: self.cols, block: source.block_len() })
            })?;
        // Without importance, all matrices are encoded as one.
        let (count, rows) = match importance {
            Some(_) => (self.count, self.rows),
            None => (1, self.rows * self.count),
        };
        let together = (PART_VALUES / self.cols.max(1)).max(1);
        let (mut values, mut blocks) = (Vec::new(), Vec::new());
        for matrix in 0..count {
            let own = importance.and_then(|all| all.get(matrix * self.cols..(matrix + 1) * self.cols));
            for first in (0..rows).step_by(together) {
                let part = together.min(rows - first);
                let start = (matrix * rows + first) * row_bytes;
                values.resize(part * self.cols, 0.0);
                self.read(cpu, source, &self.bytes[start..start + part * row_bytes], &mut values)
                    .map_err(about)?;
                blocks.resize(encoder.bytes(part, self.cols).map_err(about)?, 0);
                encoder.encode(&values, self.cols, own, &mut blocks).map_err(about)?;
                take(&blocks)?;
            }
        }
        Ok(())
    }

    /// Dequantizes rows.
    fn read(
        &self,
        cpu: &Cpu,
        source: BlockType,
        bytes: &[u8],
        values: &mut [f32],
    ) -> Result<(), QuantizeError> {
        let blocks = (TASK_VALUES / source.block_len()).max(1);
        let (piece, piece_bytes) = (blocks * source.block_len(), blocks * source.block_bytes());
        let failed = std::sync::Mutex::new(None);
        cpu.pool().run_chunks(values, piece, &|at, out| {
            let start = at * piece_bytes;
            let end = start + out.len() / source.block_len() * source.block_bytes();
            if let Err(error) = dequantize(source, &bytes[start..end], out)
                && let Ok(mut failed) = failed.lock()
            {
                failed.get_or_insert(error);
            }
        })?;
        match failed.into_inner() {
            Ok(Some(error)) => Err(error.into()),
            _ => Ok(()),
        }
    }

    fn about(&self, error: QuantizeError) -> QuantizeError {
        QuantizeError::InTensor { tensor: self.name.to_owned(), source: Box::new(error) }
    }
}

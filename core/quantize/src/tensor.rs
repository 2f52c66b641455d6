//! [`TensorSource`]: a stored tensor of any type to blocks of another, part by part.

use crate::encoder::Encoder;
use crate::error::QuantizeError;
use gguf_file::GgmlType;
use menagerie_kernels::{BlockType, Cpu, dequantize};

/// Values that are held as f32 at a time: the model never is.
const PART: usize = 1 << 24;

/// Values that one thread dequantizes before it takes more.
const PIECE: usize = 1 << 15;

/// `count` matrices `[rows, cols]` as they are stored.
#[derive(Clone, Copy)]
pub struct TensorSource<'a> {
    /// The name, for messages.
    pub name: &'a str,
    /// How it is stored.
    pub kind: GgmlType,
    /// The blocks of all matrices.
    pub bytes: &'a [u8],
    /// Matrices.
    pub count: usize,
    /// Rows of each.
    pub rows: usize,
    /// Columns of each.
    pub cols: usize,
}

impl TensorSource<'_> {
    /// Encodes the tensor over the threads of `cpu`; `take` is given the blocks part by part, in order. `importance` is
    /// `[count * cols]` or absent. The bytes do not depend on the threads.
    ///
    /// # Errors
    /// [`QuantizeError::InTensor`] with the tensor's name: a type that cannot be read or written, values that no block can
    /// hold. What `take` returns.
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
        // Without importance all matrices are rows of one.
        let (count, rows) = match importance {
            Some(_) => (self.count, self.rows),
            None => (1, self.rows * self.count),
        };
        let together = (PART / self.cols.max(1)).max(1);
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
        let blocks = (PIECE / source.block_len()).max(1);
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

//! Activations rounded to bfloat16, for BF16 weights.

use half::bf16;

use super::Activations;
use crate::memory::Buffer;
use crate::{Cpu, KernelError};

/// How many rows one task rounds.
const ROWS_PER_TASK: usize = 16;

/// The biased exponent of 2^-47: smaller numbers count as zero. Then no product with a weight of at least 2^-63, and no
/// sum of such products, is subnormal (processors with products of bfloat16 treat subnormal numbers as zero, others do
/// not).
const LEAST: u16 = 127 - 47;

/// Rows of bfloat16, each padded with a zero to an even number of values.
pub(crate) struct BFloat16Rows {
    rows: usize,
    cols: usize,
    values: Buffer,
}

impl BFloat16Rows {
    /// Rounds all rows to the nearest, ties to even; results below 2^-47 become zero.
    pub(super) fn new(cpu: &Cpu, x: &Activations) -> Result<Self, KernelError> {
        let stride = x.cols.next_multiple_of(2);
        let mut values = cpu.pool().buffers().take(x.rows * stride * size_of::<u16>());
        if stride > 0 {
            cpu.pool().run_chunks(values.halves_mut(), stride * ROWS_PER_TASK, &|task, rows| {
                for (i, out) in rows.chunks_mut(stride).enumerate() {
                    out[x.cols..].fill(0);
                    for (out, &v) in out.iter_mut().zip(x.row(task * ROWS_PER_TASK + i)) {
                        let bits = bf16::from_f32(v).to_bits();
                        *out = if bits >> 7 & 0xff < LEAST { 0 } else { bits };
                    }
                }
            })?;
        }
        Ok(BFloat16Rows { rows: x.rows, cols: x.cols, values })
    }

    /// The number of rows and of values per row.
    pub(crate) fn shape(&self) -> (usize, usize) {
        (self.rows, self.cols)
    }

    /// One row, padded to an even length.
    #[inline(always)]
    pub(crate) fn row(&self, row: usize) -> &[u16] {
        let stride = self.cols.next_multiple_of(2);
        &self.values.halves()[row * stride..(row + 1) * stride]
    }
}

//! Activations rounded to bfloat16, for BF16 weights on processors that multiply such pairs.

use super::Activations;
use crate::{Cpu, KernelError};

/// How many rows one task rounds.
const ROWS_PER_TASK: usize = 16;

/// Rows of bfloat16, each padded with a zero to an even number of values.
pub(crate) struct Halves {
    rows: usize,
    cols: usize,
    values: Vec<u16>,
}

impl Halves {
    /// Rounds all rows to the nearest, ties to even.
    pub(super) fn new(cpu: &Cpu, x: &Activations) -> Result<Self, KernelError> {
        let stride = x.cols.next_multiple_of(2);
        let mut values = vec![0u16; x.rows * stride];
        if stride > 0 {
            cpu.pool().run_chunks(&mut values, stride * ROWS_PER_TASK, &|task, rows| {
                for (i, out) in rows.chunks_mut(stride).enumerate() {
                    for (out, &v) in out.iter_mut().zip(x.row(task * ROWS_PER_TASK + i)) {
                        *out = round(v);
                    }
                }
            })?;
        }
        Ok(Halves { rows: x.rows, cols: x.cols, values })
    }

    /// The number of rows and of values per row.
    pub(super) fn shape(&self) -> (usize, usize) {
        (self.rows, self.cols)
    }

    /// One row, padded to an even length.
    #[inline(always)]
    pub(crate) fn row(&self, row: usize) -> &[u16] {
        let stride = self.cols.next_multiple_of(2);
        &self.values[row * stride..(row + 1) * stride]
    }
}

/// The nearest bfloat16, ties to even; NaN stays NaN.
#[inline(always)]
fn round(v: f32) -> u16 {
    let bits = v.to_bits();
    let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16;
    if v.is_nan() { 0x7fc0 } else { rounded as u16 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_agrees_with_half() {
        for i in 0..200_000u32 {
            let v = f32::from_bits(i.wrapping_mul(0x9e37_79b9));
            let wanted = half::bf16::from_f32(v);
            assert!(round(v) == wanted.to_bits() || v.is_nan() && wanted.is_nan(), "{v}");
        }
    }
}

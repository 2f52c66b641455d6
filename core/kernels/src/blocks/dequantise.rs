//! Blocks to f32, bit for bit as ggml's `dequantize_row_*`.

use super::format::{Format, GROUPS, SUPER, with_format};
use super::half_float::{bf16_to_f32, f16_to_f32};
use super::{BlockType, Matrix};
use crate::KernelError;

/// Converts whole blocks to f32: `bytes` holds exactly the blocks of `out.len()` values.
///
/// # Errors
/// `KernelError::Shape` if `out` is no whole number of blocks or `bytes` has another length.
pub fn dequantise(block: BlockType, bytes: &[u8], out: &mut [f32]) -> Result<(), KernelError> {
    let matrix = Matrix::new(block, 1, out.len(), bytes)?;
    dequantise_row(block, matrix.bytes(), out);
    Ok(())
}

/// As `dequantise`, for lengths that were checked; stops at the shorter side otherwise.
pub(crate) fn dequantise_row(block: BlockType, bytes: &[u8], out: &mut [f32]) {
    with_format!(block, F => blocks::<F>(bytes, out), float => floats(block, bytes, out));
}

fn floats(block: BlockType, bytes: &[u8], out: &mut [f32]) {
    if block == BlockType::F32 {
        for (out, v) in out.iter_mut().zip(bytes.as_chunks::<4>().0) {
            *out = f32::from_le_bytes(*v);
        }
        return;
    }
    let halves = bytes.as_chunks::<2>().0;
    if block == BlockType::F16 {
        for (out, v) in out.iter_mut().zip(halves) {
            *out = f16_to_f32(u16::from_le_bytes(*v));
        }
    } else {
        for (out, v) in out.iter_mut().zip(halves) {
            *out = bf16_to_f32(u16::from_le_bytes(*v));
        }
    }
}

#[inline(always)]
fn blocks<F: Format>(bytes: &[u8], out: &mut [f32]) {
    let (mut q, mut scale, mut min) = ([0i8; SUPER], [0f32; GROUPS], [0f32; GROUPS]);
    for (block, out) in bytes.chunks_exact(F::BYTES).zip(out.chunks_exact_mut(F::LEN)) {
        F::expand(block, &mut q, &mut scale, &mut min);
        for (g, out) in out.chunks_exact_mut(F::GROUP).enumerate() {
            let (s, m) = (scale[g], min[g]);
            for (out, &q) in out.iter_mut().zip(&q[g * F::GROUP..]) {
                *out = if F::MIN { s * f32::from(q) - m } else { s * f32::from(q) };
            }
        }
    }
}

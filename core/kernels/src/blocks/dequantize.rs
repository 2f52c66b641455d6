//! Blocks to f32, bit for bit like ggml's `dequantize_row_*`.

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};

use super::format::{Format, GROUPS, SUPER, with_format};
use super::{BlockType, FloatType, Matrix};
use crate::KernelError;

/// Converts whole blocks to f32: `bytes` holds exactly the blocks of `out.len()` values.
///
/// # Errors
/// [`KernelError::Shape`]: blocks do not divide `out`, or `bytes` has another length.
pub fn dequantize(block: BlockType, bytes: &[u8], out: &mut [f32]) -> Result<(), KernelError> {
    let matrix = Matrix::new(block, 1, out.len(), bytes)?;
    dequantize_row(block, matrix.bytes(), out);
    Ok(())
}

/// Like `dequantize`, for lengths that were checked; otherwise it stops at the shorter side.
pub(crate) fn dequantize_row(block: BlockType, bytes: &[u8], out: &mut [f32]) {
    match block {
        BlockType::Quant(quant) => with_format!(quant, F => blocks::<F>(bytes, out)),
        BlockType::Float(FloatType::F32) => {
            for (out, v) in out.iter_mut().zip(bytes.as_chunks::<4>().0) {
                *out = f32::from_le_bytes(*v);
            }
        }
        BlockType::Float(FloatType::F16) => {
            let mut halves = [f16::ZERO; 64];
            for (out, bytes) in out.chunks_mut(64).zip(bytes.chunks(128)) {
                for (half, v) in halves.iter_mut().zip(bytes.as_chunks::<2>().0) {
                    *half = f16::from_le_bytes(*v);
                }
                halves[..out.len()].convert_to_f32_slice(out);
            }
        }
        BlockType::Float(FloatType::BF16) => {
            for (out, v) in out.iter_mut().zip(bytes.as_chunks::<2>().0) {
                *out = bf16::from_le_bytes(*v).to_f32();
            }
        }
    }
}

#[inline(never)]
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

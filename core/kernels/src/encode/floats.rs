//! F32, F16, BF16 and Q8_0: a value is rounded by itself, or with the largest of 32.

use half::{bf16, f16};

use super::Encode;
use super::panel::largest_of;
use crate::blocks::BlockType;
use crate::simd::Simd;

/// Little-endian f32.
pub(super) struct F32Encoder;
impl Encode for F32Encoder {
    const BLOCK: BlockType = BlockType::F32;
    const PANEL: usize = 512;
    #[inline(always)]
    fn encode<S: Simd>(_: S, x: &[f32], _: Option<&[f32]>, out: &mut [u8]) {
        for (out, x) in out.as_chunks_mut().0.iter_mut().zip(x) {
            *out = x.to_le_bytes();
        }
    }
}

/// Rounded to nearest even.
pub(super) struct F16Encoder;
impl Encode for F16Encoder {
    const BLOCK: BlockType = BlockType::F16;
    const PANEL: usize = 512;
    #[inline(always)]
    fn encode<S: Simd>(_: S, x: &[f32], _: Option<&[f32]>, out: &mut [u8]) {
        for (out, &x) in out.as_chunks_mut().0.iter_mut().zip(x) {
            *out = f16::from_f32(x).to_le_bytes();
        }
    }
}

/// Rounded to nearest even.
pub(super) struct BF16Encoder;
impl Encode for BF16Encoder {
    const BLOCK: BlockType = BlockType::BF16;
    const PANEL: usize = 512;
    #[inline(always)]
    fn encode<S: Simd>(_: S, x: &[f32], _: Option<&[f32]>, out: &mut [u8]) {
        for (out, &x) in out.as_chunks_mut().0.iter_mut().zip(x) {
            *out = bf16::from_f32(x).to_le_bytes();
        }
    }
}

/// The largest magnitude becomes 127; integers are the nearest ones for the scale as it is stored.
pub(super) struct Q8_0Encoder;
impl Encode for Q8_0Encoder {
    const BLOCK: BlockType = BlockType::Q8_0;
    const PANEL: usize = 512;
    #[inline(always)]
    fn encode<S: Simd>(_: S, x: &[f32], _: Option<&[f32]>, out: &mut [u8]) {
        for (x, out) in x.as_chunks::<32>().0.iter().zip(out.chunks_exact_mut(34)) {
            let scale = f16::from_f32(largest_of(x) / 127.0);
            out[..2].copy_from_slice(&scale.to_le_bytes());
            let scale = scale.to_f32();
            let inverse = if scale > 0.0 { 1.0 / scale } else { 0.0 };
            for (out, x) in out[2..].iter_mut().zip(x) {
                *out = (x * inverse).round_ties_even().clamp(-127.0, 127.0) as i8 as u8;
            }
        }
    }
}

//! Blocks of 32 with their own scale, and minimum: Q4_0, Q4_1, Q5_0, Q5_1, IQ4_NL.

use half::f16;

use super::Encode;
use super::levels::{IntegerLevels, Iq4, Levels};
use super::minimum;
use super::one_scale::{codes, fit};
use super::panel::{Effort, Panel, Weighting, bytes_of_groups, halves};
use crate::blocks::BlockType;
use crate::simd::{Kernel, LANES, Simd};

/// The scales and stored numbers of up to sixteen blocks of 32.
struct BlocksOf32<'a, L> {
    x: &'a [f32],
    importance: Option<&'a [f32]>,
    levels: L,
}

impl<L: Levels> Kernel for BlocksOf32<'_, L> {
    type Output = ([f16; LANES], [[u8; 32]; LANES]);

    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> Self::Output {
        let BlocksOf32 { x, importance, levels } = self;
        let panel = Panel::new(s, 32, x, importance, (32, Weighting::Even));
        let scales = halves(s, fit(s, levels, &panel, Effort::for_small_blocks(importance)).0);
        let codes = codes(s, levels, &panel, widened(s, &scales));
        (scales, bytes_of_groups(s, &codes))
    }
}

/// The scales, minima (to be added) and stored numbers, 0 to `top`, of up to sixteen blocks of 32.
struct LinesOf32<'a> {
    x: &'a [f32],
    importance: Option<&'a [f32]>,
    top: f32,
}

impl Kernel for LinesOf32<'_> {
    type Output = ([f16; LANES], [f16; LANES], [[u8; 32]; LANES]);

    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> Self::Output {
        let LinesOf32 { x, importance, top } = self;
        let panel = Panel::new(s, 32, x, importance, (32, Weighting::Even));
        let effort = Effort::for_small_blocks(importance);
        let lines = minimum::fit::<S, minimum::Any>(s, top, &panel, effort);
        let scales = halves(s, lines.scale);
        let minima = halves(s, s.sub(s.splat(0.0), lines.minimum));
        let subtracted = s.sub(s.splat(0.0), widened(s, &minima));
        let codes = minimum::codes(s, top, &panel, subtracted, widened(s, &scales));
        (scales, minima, bytes_of_groups(s, &codes))
    }
}

/// Lanes of f16 as f32.
#[inline(always)]
fn widened<S: Simd>(s: S, halves: &[f16; LANES]) -> S::F {
    let mut out = [0.0; LANES];
    for g in 0..LANES {
        out[g] = halves[g].to_f32();
    }
    s.load(&out)
}

/// Two numbers of four bits per byte: the first sixteen low, the others high.
#[inline(always)]
pub(super) fn nibbles(codes: &[u8; 32], out: &mut [u8]) {
    for (i, out) in out[..16].iter_mut().enumerate() {
        *out = codes[i] & 15 | codes[i + 16] << 4;
    }
}

/// The fifth bit of each number.
#[inline(always)]
pub(super) fn fifth_bits(codes: &[u8; 32]) -> [u8; 4] {
    let mut bits = 0u32;
    for i in 0..32 {
        bits |= u32::from(codes[i] >> 4 & 1) << i;
    }
    bits.to_le_bytes()
}

/// Q4_0: d f16, nibbles; `d * (q - 8)`.
pub(super) struct Q4_0Encoder;
impl Encode for Q4_0Encoder {
    const BLOCK: BlockType = BlockType::Q4_0;
    const PANEL: usize = 512;
    #[inline(always)]
    fn encode<S: Simd>(s: S, x: &[f32], importance: Option<&[f32]>, out: &mut [u8]) {
        let (scales, codes) = s.call(BlocksOf32 { x, importance, levels: IntegerLevels::FOUR_BITS });
        for (n, out) in out.chunks_exact_mut(18).enumerate() {
            out[..2].copy_from_slice(&scales[n].to_le_bytes());
            nibbles(&codes[n], &mut out[2..]);
        }
    }
}

/// Q5_0: d f16, fifth bits, nibbles; `d * (q - 16)`.
pub(super) struct Q5_0Encoder;
impl Encode for Q5_0Encoder {
    const BLOCK: BlockType = BlockType::Q5_0;
    const PANEL: usize = 512;
    #[inline(always)]
    fn encode<S: Simd>(s: S, x: &[f32], importance: Option<&[f32]>, out: &mut [u8]) {
        let (scales, codes) = s.call(BlocksOf32 { x, importance, levels: IntegerLevels::FIVE_BITS });
        for (n, out) in out.chunks_exact_mut(22).enumerate() {
            out[..2].copy_from_slice(&scales[n].to_le_bytes());
            out[2..6].copy_from_slice(&fifth_bits(&codes[n]));
            nibbles(&codes[n], &mut out[6..]);
        }
    }
}

/// Q4_1: d f16, m f16, nibbles; `d * q + m`.
pub(super) struct Q4_1Encoder;
impl Encode for Q4_1Encoder {
    const BLOCK: BlockType = BlockType::Q4_1;
    const PANEL: usize = 512;
    #[inline(always)]
    fn encode<S: Simd>(s: S, x: &[f32], importance: Option<&[f32]>, out: &mut [u8]) {
        let (scales, minima, codes) = s.call(LinesOf32 { x, importance, top: 15.0 });
        for (n, out) in out.chunks_exact_mut(20).enumerate() {
            out[..2].copy_from_slice(&scales[n].to_le_bytes());
            out[2..4].copy_from_slice(&minima[n].to_le_bytes());
            nibbles(&codes[n], &mut out[4..]);
        }
    }
}

/// Q5_1: d f16, m f16, fifth bits, nibbles; `d * q + m`.
pub(super) struct Q5_1Encoder;
impl Encode for Q5_1Encoder {
    const BLOCK: BlockType = BlockType::Q5_1;
    const PANEL: usize = 512;
    #[inline(always)]
    fn encode<S: Simd>(s: S, x: &[f32], importance: Option<&[f32]>, out: &mut [u8]) {
        let (scales, minima, codes) = s.call(LinesOf32 { x, importance, top: 31.0 });
        for (n, out) in out.chunks_exact_mut(24).enumerate() {
            out[..2].copy_from_slice(&scales[n].to_le_bytes());
            out[2..4].copy_from_slice(&minima[n].to_le_bytes());
            out[4..8].copy_from_slice(&fifth_bits(&codes[n]));
            nibbles(&codes[n], &mut out[8..]);
        }
    }
}

/// IQ4_NL: d f16, nibbles that index uneven levels.
pub(super) struct Iq4NlEncoder;
impl Encode for Iq4NlEncoder {
    const BLOCK: BlockType = BlockType::IQ4_NL;
    const PANEL: usize = 512;
    #[inline(always)]
    fn encode<S: Simd>(s: S, x: &[f32], importance: Option<&[f32]>, out: &mut [u8]) {
        let (scales, codes) = s.call(BlocksOf32 { x, importance, levels: Iq4 });
        for (n, out) in out.chunks_exact_mut(18).enumerate() {
            out[..2].copy_from_slice(&scales[n].to_le_bytes());
            nibbles(&codes[n], &mut out[2..]);
        }
    }
}

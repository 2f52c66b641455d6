//! The codebook formats: IQ2_XXS, IQ2_XS, IQ2_S, IQ3_XXS, IQ3_S, IQ1_S, IQ1_M.

use super::Encode;
use super::codebook::{IQ1_GRID, IQ2_S_GRID, IQ2_XS_GRID, IQ2_XXS_GRID, IQ3_S_GRID, IQ3_XXS_GRID};
use super::grid::{Coded, Coding, EncodeGrid, even_signs, signs};
use super::levels::Even;
use super::panel::{Weighting, weigh};
use crate::blocks::BlockType;
use crate::simd::Simd;

/// Weights of a super-block.
#[inline(always)]
fn weights(x: &[f32], importance: Option<&[f32]>) -> [f32; 256] {
    let mut w = [0.0; 256];
    weigh(x, importance, 256, Weighting::Size, &mut w);
    w
}

/// Encodes a super-block whose signs are even per eight: its words, and the seven bits that are stored per eight.
#[inline(always)]
fn with_even_signs<S: Simd>(
    s: S,
    coded: &'static Coded,
    x: &[f32],
    importance: Option<&[f32]>,
) -> (Coding, [u8; 32]) {
    let (w, mut size) = (weights(x, importance), [0.0; 256]);
    let signs = even_signs(x, &w, &mut size);
    (s.call(EncodeGrid { coded, x: &size, w: &w }), signs)
}

/// Encodes a super-block with a sign for every value.
#[inline(always)]
fn with_signs<S: Simd>(
    s: S,
    coded: &'static Coded,
    x: &[f32],
    importance: Option<&[f32]>,
) -> (Coding, [u8; 32]) {
    let (w, mut size) = (weights(x, importance), [0.0; 256]);
    let signs = signs(x, &mut size);
    (s.call(EncodeGrid { coded, x: &size, w: &w }), signs)
}

/// Encodes a super-block of words with signs of their own.
#[inline(always)]
fn as_it_is<S: Simd>(s: S, coded: &'static Coded, x: &[f32], importance: Option<&[f32]>) -> Coding {
    let mut values = [0.0; 256];
    values.copy_from_slice(x);
    s.call(EncodeGrid { coded, x: &values, w: &weights(x, importance) })
}

/// The stored number of a group: half of its odd number.
#[inline(always)]
fn stored(coding: &Coding, group: usize) -> u8 {
    coding.numbers[group] >> 1
}

/// The stored numbers of two groups in a byte.
#[inline(always)]
fn scale_nibbles(coding: &Coding, out: &mut [u8]) {
    for (n, out) in out.iter_mut().enumerate() {
        *out = stored(coding, 2 * n) | stored(coding, 2 * n + 1) << 4;
    }
}

/// IQ2_XXS: d f16, per 32 values four book indices and 32 bits of signs (4 x 7) and scale (4).
pub(super) struct Iq2XxsEncoder;
impl Iq2XxsEncoder {
    const CODED: Coded = Coded {
        grid: &IQ2_XXS_GRID,
        levels: Even::TWO_BITS,
        group: 32,
        unit: 0.125,
        most: 31.0,
        starts: &[1.0],
        rounds: 3,
        shifts: &[0.0],
        run: 32,
    };
}
impl Encode for Iq2XxsEncoder {
    const BLOCK: BlockType = BlockType::IQ2_XXS;
    const PANEL: usize = 256;
    #[inline(always)]
    fn encode<S: Simd>(s: S, x: &[f32], importance: Option<&[f32]>, out: &mut [u8]) {
        let (coding, signs) = with_even_signs(s, &Self::CODED, x, importance);
        out[..2].copy_from_slice(&coding.factor.to_le_bytes());
        for g in 0..8 {
            let mut bits = u32::from(stored(&coding, g)) << 28;
            for i in 0..4 {
                out[2 + g * 8 + i] = coding.words[g][i] as u8;
                bits |= u32::from(signs[g * 4 + i] & 127) << (7 * i);
            }
            out[2 + g * 8 + 4..][..4].copy_from_slice(&bits.to_le_bytes());
        }
    }
}

/// IQ2_XS: d f16, 32 words of book index (9) and signs (7), scale nibbles.
pub(super) struct Iq2XsEncoder;
impl Iq2XsEncoder {
    const CODED: Coded = Coded {
        grid: &IQ2_XS_GRID,
        levels: Even::TWO_BITS,
        group: 16,
        unit: 0.125,
        most: 31.0,
        starts: &[1.0],
        rounds: 3,
        shifts: &[0.0],
        run: 16,
    };
}
impl Encode for Iq2XsEncoder {
    const BLOCK: BlockType = BlockType::IQ2_XS;
    const PANEL: usize = 256;
    #[inline(always)]
    fn encode<S: Simd>(s: S, x: &[f32], importance: Option<&[f32]>, out: &mut [u8]) {
        let (coding, signs) = with_even_signs(s, &Self::CODED, x, importance);
        out[..2].copy_from_slice(&coding.factor.to_le_bytes());
        for n in 0..32 {
            let word = coding.words[n / 2][n % 2] | u16::from(signs[n] & 127) << 9;
            out[2 + n * 2..][..2].copy_from_slice(&word.to_le_bytes());
        }
        scale_nibbles(&coding, &mut out[66..74]);
    }
}

/// IQ2_S: d f16, low index bytes, sign bytes, high index bits, scale nibbles.
pub(super) struct Iq2SEncoder;
impl Iq2SEncoder {
    const CODED: Coded = Coded {
        grid: &IQ2_S_GRID,
        levels: Even::TWO_BITS,
        group: 16,
        unit: 0.125,
        most: 31.0,
        starts: &[1.0],
        rounds: 3,
        shifts: &[0.0],
        run: 16,
    };
}
impl Encode for Iq2SEncoder {
    const BLOCK: BlockType = BlockType::IQ2_S;
    const PANEL: usize = 256;
    #[inline(always)]
    fn encode<S: Simd>(s: S, x: &[f32], importance: Option<&[f32]>, out: &mut [u8]) {
        let (coding, signs) = with_signs(s, &Self::CODED, x, importance);
        out[..2].copy_from_slice(&coding.factor.to_le_bytes());
        out[34..66].copy_from_slice(&signs);
        out[66..74].fill(0);
        for n in 0..32 {
            let word = coding.words[n / 2][n % 2];
            out[2 + n] = word as u8;
            out[66 + n / 4] |= ((word >> 8) as u8) << (2 * (n % 4));
        }
        scale_nibbles(&coding, &mut out[74..82]);
    }
}

/// IQ3_XXS: d f16, 64 book indices, per 32 values 32 bits of signs (4 x 7) and scale (4).
pub(super) struct Iq3XxsEncoder;
impl Iq3XxsEncoder {
    const CODED: Coded = Coded {
        grid: &IQ3_XXS_GRID,
        levels: Even::THREE_BITS,
        group: 32,
        unit: 0.25,
        most: 31.0,
        starts: &[1.0, 0.88, 1.14],
        rounds: 3,
        shifts: &[0.0],
        run: 32,
    };
}
impl Encode for Iq3XxsEncoder {
    const BLOCK: BlockType = BlockType::IQ3_XXS;
    const PANEL: usize = 256;
    #[inline(always)]
    fn encode<S: Simd>(s: S, x: &[f32], importance: Option<&[f32]>, out: &mut [u8]) {
        let (coding, signs) = with_even_signs(s, &Self::CODED, x, importance);
        out[..2].copy_from_slice(&coding.factor.to_le_bytes());
        for g in 0..8 {
            let mut bits = u32::from(stored(&coding, g)) << 28;
            for i in 0..8 {
                out[2 + g * 8 + i] = coding.words[g][i] as u8;
            }
            for i in 0..4 {
                bits |= u32::from(signs[g * 4 + i] & 127) << (7 * i);
            }
            out[66 + g * 4..][..4].copy_from_slice(&bits.to_le_bytes());
        }
    }
}

/// IQ3_S: d f16, low index bytes, high index bits, sign bytes, scale nibbles.
pub(super) struct Iq3SEncoder;
impl Iq3SEncoder {
    const CODED: Coded = Coded {
        grid: &IQ3_S_GRID,
        levels: Even::ODD,
        group: 32,
        unit: 1.0,
        most: 31.0,
        starts: &[1.0],
        rounds: 3,
        shifts: &[0.0],
        run: 32,
    };
}
impl Encode for Iq3SEncoder {
    const BLOCK: BlockType = BlockType::IQ3_S;
    const PANEL: usize = 256;
    #[inline(always)]
    fn encode<S: Simd>(s: S, x: &[f32], importance: Option<&[f32]>, out: &mut [u8]) {
        let (coding, signs) = with_signs(s, &Self::CODED, x, importance);
        out[..2].copy_from_slice(&coding.factor.to_le_bytes());
        for g in 0..8 {
            out[66 + g] = 0;
            for i in 0..8 {
                let word = coding.words[g][i];
                out[2 + g * 8 + i] = word as u8;
                out[66 + g] |= ((word >> 8) as u8) << i;
            }
        }
        out[74..106].copy_from_slice(&signs);
        scale_nibbles(&coding, &mut out[106..110]);
    }
}

/// IQ1_S: d f16, low index bytes, words of high index bits (4 x 3), scale (3) and shift sign.
pub(super) struct Iq1SEncoder;
impl Iq1SEncoder {
    const CODED: Coded = Coded {
        grid: &IQ1_GRID,
        levels: Even::TERNARY,
        group: 32,
        unit: 0.125,
        most: 15.0,
        starts: &[1.0],
        rounds: 2,
        shifts: &[1.0, -1.0],
        run: 32,
    };
}
impl Encode for Iq1SEncoder {
    const BLOCK: BlockType = BlockType::IQ1_S;
    const PANEL: usize = 256;
    #[inline(always)]
    fn encode<S: Simd>(s: S, x: &[f32], importance: Option<&[f32]>, out: &mut [u8]) {
        let coding = as_it_is(s, &Self::CODED, x, importance);
        out[..2].copy_from_slice(&coding.factor.to_le_bytes());
        for g in 0..8 {
            let mut bits = u16::from(stored(&coding, g)) << 12 | u16::from(coding.shifts[g]) << 15;
            for i in 0..4 {
                let word = coding.words[g][i];
                out[2 + g * 4 + i] = word as u8;
                bits |= (word >> 8) << (3 * i);
            }
            out[34 + g * 2..][..2].copy_from_slice(&bits.to_le_bytes());
        }
    }
}

/// IQ1_M: low index bytes, high index bits and shift signs, words of scales whose top nibbles are the f16 factor. Each word
/// has a shift of its own.
pub(super) struct Iq1MEncoder;
impl Iq1MEncoder {
    const CODED: Coded = Coded {
        grid: &IQ1_GRID,
        levels: Even::TERNARY,
        group: 16,
        unit: 0.125,
        most: 15.0,
        starts: &[1.0],
        rounds: 2,
        shifts: &[1.0, -1.0],
        run: 8,
    };
}
impl Encode for Iq1MEncoder {
    const BLOCK: BlockType = BlockType::IQ1_M;
    const PANEL: usize = 256;
    #[inline(always)]
    fn encode<S: Simd>(s: S, x: &[f32], importance: Option<&[f32]>, out: &mut [u8]) {
        let coding = as_it_is(s, &Self::CODED, x, importance);
        for g in 0..16 {
            let mut high = 0;
            for i in 0..2 {
                let word = coding.words[g][i];
                out[g * 2 + i] = word as u8;
                high |= ((word >> 8) as u8 | (coding.shifts[g] >> i & 1) << 3) << (4 * i);
            }
            out[32 + g] = high;
        }
        let factor = coding.factor.to_bits();
        for part in 0..4 {
            let mut bits = (factor >> (4 * part) & 15) << 12;
            for g in 0..4 {
                bits |= u16::from(stored(&coding, part * 4 + g)) << (3 * g);
            }
            out[48 + part * 2..][..2].copy_from_slice(&bits.to_le_bytes());
        }
    }
}

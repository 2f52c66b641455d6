//! Super-blocks of 256: Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_XS.

use half::f16;

use super::Encode;
use super::levels::{IntegerLevels, Iq4, Levels};
use super::minimum;
use super::one_scale::codes;
use super::panel::{Panel, Weighting, byte, bytes_of_groups};
use super::scales;
use crate::blocks::BlockType;
use crate::simd::{Kernel, LANES, Simd};

/// Integers in lanes as bytes.
#[inline(always)]
fn bytes<S: Simd>(s: S, lanes: S::F) -> [u8; LANES] {
    let (lanes, mut out) = (s.lanes(lanes), [0; LANES]);
    for g in 0..LANES {
        out[g] = byte(lanes[g]);
    }
    out
}

/// The parts of a super-block without minima: its factor, the integers of its scales (two's complement) and its
/// 256 stored numbers, all for up to two blocks.
struct ScaledBlocks<const N: usize> {
    factors: [f16; 2],
    scales: [u8; LANES],
    codes: [[u8; N]; LANES],
}

/// Groups of `N`, `G` per block, with scales from `low` to `high`.
struct ScaleSearch<'a, L, const N: usize, const G: usize> {
    x: &'a [f32],
    importance: Option<&'a [f32]>,
    levels: L,
    low: f32,
    high: f32,
}

impl<L: Levels, const N: usize, const G: usize> Kernel for ScaleSearch<'_, L, N, G> {
    type Output = ScaledBlocks<N>;

    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> ScaledBlocks<N> {
        let ScaleSearch { x, importance, levels, low, high } = self;
        let panel = Panel::new(s, N, x, importance, (256, Weighting::Size));
        let shared = scales::share::<S, L, G>(s, levels, &panel, low, high);
        let codes = codes(s, levels, &panel, shared.scales);
        ScaledBlocks {
            factors: shared.factors,
            scales: bytes(s, shared.numbers),
            codes: bytes_of_groups(s, &codes),
        }
    }
}

/// The same for one with minima: the factors of scales and minima, and the integers of both.
struct Lined<const N: usize> {
    factors: [[f16; 2]; 2],
    scales: [u8; LANES],
    minima: [u8; LANES],
    codes: [[u8; N]; LANES],
}

/// Groups of `N`, `G` per block, of numbers from 0 to `top`, with scales and minima from 0 to `most`.
struct LineSearch<'a, const N: usize, const G: usize> {
    x: &'a [f32],
    importance: Option<&'a [f32]>,
    top: f32,
    most: f32,
}

impl<const N: usize, const G: usize> Kernel for LineSearch<'_, N, G> {
    type Output = Lined<N>;

    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> Lined<N> {
        let LineSearch { x, importance, top, most } = self;
        let panel = Panel::new(s, N, x, importance, (256, Weighting::Size));
        let shared = minimum::share::<S, G>(s, top, &panel, most);
        let codes = minimum::codes(s, top, &panel, shared.minimum, shared.scale);
        Lined {
            factors: shared.factors,
            scales: bytes(s, shared.scale_numbers),
            minima: bytes(s, shared.minimum_numbers),
            codes: bytes_of_groups(s, &codes),
        }
    }
}

/// Two bits of each of 256 numbers, 32 apart: bits 0 and 1 of byte `i` are those of value `i`.
#[inline(always)]
pub(super) fn two_bits(codes: &[u8], out: &mut [u8]) {
    for half in 0..2 {
        let (codes, out) = (&codes[half * 128..][..128], &mut out[half * 32..][..32]);
        for i in 0..32 {
            out[i] =
                codes[i] & 3 | (codes[i + 32] & 3) << 2 | (codes[i + 64] & 3) << 4 | (codes[i + 96] & 3) << 6;
        }
    }
}

/// Four bits of each of 256 numbers, 32 apart.
#[inline(always)]
fn four_bits(codes: &[u8], out: &mut [u8]) {
    for pair in 0..4 {
        let (codes, out) = (&codes[pair * 64..][..64], &mut out[pair * 32..][..32]);
        for i in 0..32 {
            out[i] = codes[i] & 15 | codes[i + 32] << 4;
        }
    }
}

/// The eight 6-bit scales and minima of Q4_K and Q5_K, in twelve bytes.
#[inline(always)]
fn scales_and_minima(scales: &[u8], minima: &[u8], out: &mut [u8]) {
    for j in 0..4 {
        out[j] = scales[j] | scales[j + 4] >> 4 << 6;
        out[j + 4] = minima[j] | minima[j + 4] >> 4 << 6;
        out[j + 8] = scales[j + 4] & 15 | minima[j + 4] << 4;
    }
}

/// Q2_K: scale and minimum nibbles, two bits, d f16, dmin f16.
pub(super) struct Q2KEncoder;
impl Encode for Q2KEncoder {
    const BLOCK: BlockType = BlockType::Q2_K;
    const PANEL: usize = 256;
    #[inline(always)]
    fn encode<S: Simd>(s: S, x: &[f32], importance: Option<&[f32]>, out: &mut [u8]) {
        let found = s.call(LineSearch::<16, 16> { x, importance, top: 3.0, most: 15.0 });
        for g in 0..16 {
            out[g] = found.scales[g] | found.minima[g] << 4;
        }
        two_bits(found.codes.as_flattened(), &mut out[16..80]);
        out[80..82].copy_from_slice(&found.factors[0][0].to_le_bytes());
        out[82..84].copy_from_slice(&found.factors[1][0].to_le_bytes());
    }
}

/// Q3_K: high bits, two bits, 6-bit scales, d f16.
pub(super) struct Q3KEncoder;
impl Encode for Q3KEncoder {
    const BLOCK: BlockType = BlockType::Q3_K;
    const PANEL: usize = 256;
    #[inline(always)]
    fn encode<S: Simd>(s: S, x: &[f32], importance: Option<&[f32]>, out: &mut [u8]) {
        let levels = IntegerLevels::THREE_BITS;
        let found = s.call(ScaleSearch::<_, 16, 16> { x, importance, levels, low: -32.0, high: 31.0 });
        let codes = found.codes.as_flattened();
        for i in 0..32 {
            let mut high = 0;
            for part in 0..8 {
                high |= (codes[part * 32 + i] >> 2 & 1) << part;
            }
            out[i] = high;
        }
        two_bits(codes, &mut out[32..96]);
        out[96..108].fill(0);
        for g in 0..16 {
            let l = found.scales[g].wrapping_add(32);
            out[96 + g % 8] |= (l & 15) << (4 * (g / 8));
            out[104 + g % 4] |= (l >> 4) << (2 * (g / 4));
        }
        out[108..110].copy_from_slice(&found.factors[0].to_le_bytes());
    }
}

/// Q4_K: d f16, dmin f16, 6-bit scales and minima, nibbles.
pub(super) struct Q4KEncoder;
impl Encode for Q4KEncoder {
    const BLOCK: BlockType = BlockType::Q4_K;
    const PANEL: usize = 512;
    #[inline(always)]
    fn encode<S: Simd>(s: S, x: &[f32], importance: Option<&[f32]>, out: &mut [u8]) {
        let found = s.call(LineSearch::<32, 8> { x, importance, top: 15.0, most: 63.0 });
        for (n, out) in out.chunks_exact_mut(144).enumerate() {
            out[..2].copy_from_slice(&found.factors[0][n].to_le_bytes());
            out[2..4].copy_from_slice(&found.factors[1][n].to_le_bytes());
            scales_and_minima(&found.scales[n * 8..], &found.minima[n * 8..], &mut out[4..16]);
            four_bits(found.codes[n * 8..].as_flattened(), &mut out[16..]);
        }
    }
}

/// Q5_K: as Q4_K with high bits before the nibbles.
pub(super) struct Q5KEncoder;
impl Encode for Q5KEncoder {
    const BLOCK: BlockType = BlockType::Q5_K;
    const PANEL: usize = 512;
    #[inline(always)]
    fn encode<S: Simd>(s: S, x: &[f32], importance: Option<&[f32]>, out: &mut [u8]) {
        let found = s.call(LineSearch::<32, 8> { x, importance, top: 31.0, most: 63.0 });
        for (n, out) in out.chunks_exact_mut(176).enumerate() {
            let codes = &found.codes[n * 8..];
            out[..2].copy_from_slice(&found.factors[0][n].to_le_bytes());
            out[2..4].copy_from_slice(&found.factors[1][n].to_le_bytes());
            scales_and_minima(&found.scales[n * 8..], &found.minima[n * 8..], &mut out[4..16]);
            for i in 0..32 {
                let mut high = 0;
                for part in 0..8 {
                    high |= (codes[part][i] >> 4 & 1) << part;
                }
                out[16 + i] = high;
            }
            four_bits(codes.as_flattened(), &mut out[48..]);
        }
    }
}

/// Q6_K: low nibbles, high bit pairs, 8-bit scales, d f16.
pub(super) struct Q6KEncoder;
impl Encode for Q6KEncoder {
    const BLOCK: BlockType = BlockType::Q6_K;
    const PANEL: usize = 256;
    #[inline(always)]
    fn encode<S: Simd>(s: S, x: &[f32], importance: Option<&[f32]>, out: &mut [u8]) {
        let levels = IntegerLevels::SIX_BITS;
        let found = s.call(ScaleSearch::<_, 16, 16> { x, importance, levels, low: -128.0, high: 127.0 });
        let codes = found.codes.as_flattened();
        for half in 0..2 {
            let codes = &codes[half * 128..][..128];
            for i in 0..32 {
                let (a, b, c, d) = (codes[i], codes[i + 32], codes[i + 64], codes[i + 96]);
                out[half * 64 + i] = a & 15 | c << 4;
                out[half * 64 + 32 + i] = b & 15 | d << 4;
                out[128 + half * 32 + i] = a >> 4 | b >> 4 << 2 | c >> 4 << 4 | d >> 4 << 6;
            }
        }
        out[192..208].copy_from_slice(&found.scales);
        out[208..210].copy_from_slice(&found.factors[0].to_le_bytes());
    }
}

/// IQ4_XS: d f16, high and low scale bits, nibbles that index uneven levels.
pub(super) struct Iq4XsEncoder;
impl Encode for Iq4XsEncoder {
    const BLOCK: BlockType = BlockType::IQ4_XS;
    const PANEL: usize = 512;
    #[inline(always)]
    fn encode<S: Simd>(s: S, x: &[f32], importance: Option<&[f32]>, out: &mut [u8]) {
        let found = s.call(ScaleSearch::<_, 32, 8> { x, importance, levels: Iq4, low: -32.0, high: 31.0 });
        for (n, out) in out.chunks_exact_mut(136).enumerate() {
            out[..2].copy_from_slice(&found.factors[n].to_le_bytes());
            let mut high = 0u16;
            for g in 0..8 {
                let l = found.scales[n * 8 + g].wrapping_add(32);
                high |= u16::from(l >> 4) << (2 * g);
                out[4 + g / 2] = if g % 2 == 0 { l & 15 } else { out[4 + g / 2] | l << 4 };
                super::four_bit::nibbles(&found.codes[n * 8 + g], &mut out[8 + g * 16..]);
            }
            out[2..4].copy_from_slice(&high.to_le_bytes());
        }
    }
}

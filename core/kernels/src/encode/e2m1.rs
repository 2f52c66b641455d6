//! Microscaled blocks: MXFP4 and NVFP4, whose scales are powers of two or small floats.

use super::Encode;
use super::levels::E2m1;
use super::one_scale::{codes, error};
use super::panel::{Panel, Weighting, bytes_of_groups, largest_of};
use crate::blocks::{BlockType, ue4m3_half};
use crate::simd::{LANES, Simd};

/// MXFP4: one power of two per 32, nibbles.
pub(super) struct Mxfp4Encoder;
impl Encode for Mxfp4Encoder {
    const BLOCK: BlockType = BlockType::MXFP4;
    const PANEL: usize = 512;
    #[inline(always)]
    fn encode<S: Simd>(s: S, x: &[f32], importance: Option<&[f32]>, out: &mut [u8]) {
        let (mut first, mut unit, mut whole) = ([0u8; LANES], [0.0; LANES], [0.0; 512]);
        for (g, block) in x.chunks_exact(32).enumerate() {
            // The exponent with which the largest value is at most 8 (the largest level is 6), as OCP's MX 1.0 defines
            // it.
            first[g] = ((largest_of(block).to_bits() >> 23) as u8).saturating_sub(2).clamp(2, 253);
            unit[g] = power(128 - i32::from(first[g]));
            for i in 0..32 {
                whole[g * 32 + i] = block[i] * unit[g];
            }
        }
        // In units of that scale, so that squares of very small or large weights stay finite and nonzero.
        let panel = Panel::new(s, 32, &whole[..x.len()], importance, (32, Weighting::Even));
        let (mut step, mut off) = (s.splat(1.0), error(s, E2m1, &panel, s.splat(1.0)));
        for other in [0.5, 2.0] {
            let found = error(s, E2m1, &panel, s.splat(other));
            step = s.select_lt(found, off, s.splat(other), step);
            off = s.min(found, off);
        }
        let codes = bytes_of_groups(s, &codes(s, E2m1, &panel, step));
        let step = s.lanes(step);
        for (g, out) in out.chunks_exact_mut(17).enumerate() {
            let up = if step[g] > 1.0 { 1 } else { 0 };
            let down = if step[g] < 1.0 { 1 } else { 0 };
            let none = codes[g].iter().all(|code| *code == 0);
            out[0] = if none { 0 } else { first[g] + up - down };
            super::four_bit::nibbles(&codes[g], &mut out[1..]);
        }
    }
}

/// `2^n`, for `n` from -126 to 127.
#[inline(always)]
fn power(n: i32) -> f32 {
    f32::from_bits(((n + 127) as u32) << 23)
}

/// The scale, from 0 to 126, whose value is at or below `half`, as near as possible.
#[inline(always)]
fn scale_below(half: f32) -> u8 {
    let (mut low, mut high) = (0u8, 126u8);
    while low < high {
        let middle = (low + high).div_ceil(2);
        if ue4m3_half(middle) <= half {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    low
}

/// NVFP4: four ue4m3 scales, then nibbles of four groups of 16.
pub(super) struct Nvfp4Encoder;
impl Encode for Nvfp4Encoder {
    const BLOCK: BlockType = BlockType::NVFP4;
    const PANEL: usize = 256;
    #[inline(always)]
    fn encode<S: Simd>(s: S, x: &[f32], importance: Option<&[f32]>, out: &mut [u8]) {
        let panel = Panel::new(s, 16, x, importance, (64, Weighting::Even));
        let mut first = [0u8; LANES];
        for (g, group) in x.chunks_exact(16).enumerate() {
            first[g] = scale_below(largest_of(group) / 12.0);
        }
        let (mut scale, mut number, mut off) = (s.splat(0.0), s.splat(0.0), s.splat(f32::MAX));
        for step in [0, -2, -1, 1, 2] {
            let (mut value, mut numbers) = ([0.0; LANES], [0.0; LANES]);
            for g in 0..LANES {
                let at = (i16::from(first[g]) + step).clamp(0, 126) as u8;
                (value[g], numbers[g]) = (ue4m3_half(at), f32::from(at));
            }
            let (value, numbers) = (s.load(&value), s.load(&numbers));
            let found = error(s, E2m1, &panel, value);
            scale = s.select_lt(found, off, value, scale);
            number = s.select_lt(found, off, numbers, number);
            off = s.min(found, off);
        }
        let codes: [[u8; 16]; LANES] = bytes_of_groups(s, &codes(s, E2m1, &panel, scale));
        let numbers = s.lanes(number);
        for (n, out) in out.chunks_exact_mut(36).enumerate() {
            for g in 0..4 {
                out[g] = numbers[n * 4 + g] as u8;
                for i in 0..8 {
                    let codes = &codes[n * 4 + g];
                    out[4 + g * 8 + i] = codes[i] & 15 | codes[i + 8] << 4;
                }
            }
        }
    }
}

//! TQ1_0 and TQ2_0: -1, 0 or 1 times one scale per 256.

use half::f16;

use super::Encode;
use super::levels::{IntegerLevels, Levels};
use super::panel::{TINY, Weighting, byte, inverse, largest_of, weigh};
use crate::blocks::BlockType;
use crate::simd::{Kernel, LANES, Simd};

const TERNARY: IntegerLevels = IntegerLevels::TERNARY;

/// How many times the scale is improved by least squares with its own numbers.
const ROUNDS: usize = 3;

/// The scale with the least weighted square error, and 0, 1 or 2 for each of 256 values.
struct TernaryScale<'a> {
    x: &'a [f32],
    importance: Option<&'a [f32]>,
}

impl Kernel for TernaryScale<'_> {
    type Output = (f16, [u8; 256]);

    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> Self::Output {
        ternary(s, self.x, self.importance)
    }
}

#[inline(always)]
fn ternary<S: Simd>(s: S, x: &[f32], importance: Option<&[f32]>) -> (f16, [u8; 256]) {
    let mut w = [0.0; 256];
    weigh(x, importance, 256, Weighting::Even, &mut w);
    let largest = largest_of(x);
    let unit = if largest < TINY { 0.0 } else { 1.0 / largest };
    let (mut best, mut gain) = (0.0, 0.0);
    for n in 0..TERNARY.anchors().len() + ROUNDS {
        let factor = match TERNARY.anchors().get(n) {
            Some(anchor) => unit * anchor,
            None if best > 0.0 => 1.0 / best,
            None => break,
        };
        let (along, square) = sums(s, x, &w, factor);
        if square > 0.0 && along * (along / square) > gain {
            (best, gain) = (along / square, along * (along / square));
        }
    }
    let scale = f16::from_f32(best);
    let factor = inverse(s, s.splat(scale.to_f32()));
    let mut codes = [0; 256];
    for (out, x) in codes.as_chunks_mut::<LANES>().0.iter_mut().zip(x.as_chunks::<LANES>().0) {
        let found = s.lanes(TERNARY.code(s, s.mul(s.load(x), factor)));
        for i in 0..LANES {
            out[i] = byte(found[i]);
        }
    }
    (scale, codes)
}

/// `sum w x q` and `sum w q^2` for the numbers nearest to `x * factor`.
#[inline(always)]
fn sums<S: Simd>(s: S, x: &[f32], w: &[f32; 256], factor: f32) -> (f32, f32) {
    let (mut along, mut square, factor) = (s.splat(0.0), s.splat(0.0), s.splat(factor));
    for (x, w) in x.as_chunks::<LANES>().0.iter().zip(w.as_chunks::<LANES>().0) {
        let (x, w) = (s.load(x), s.load(w));
        let q = TERNARY.nearest(s, s.mul(x, factor));
        let wq = s.mul(w, q);
        along = s.add(along, s.mul(wq, x));
        square = s.add(square, s.mul(wq, q));
    }
    // Summed in the order of the lanes, which is the same on every instruction set.
    (s.lanes(along).iter().sum(), s.lanes(square).iter().sum())
}

/// A byte of five ternary digits, the most significant one first: the fraction of 256 from which multiplications by 3
/// recover the digits.
#[inline(always)]
fn digits(codes: [u8; 5]) -> u8 {
    let mut number = 0u16;
    for code in codes {
        number = number * 3 + u16::from(code);
    }
    (number * 256).div_ceil(243) as u8
}

/// TQ1_0: 48 bytes of five digits, 4 bytes of four, d f16.
pub(super) struct Tq1_0Encoder;
impl Encode for Tq1_0Encoder {
    const BLOCK: BlockType = BlockType::TQ1_0;
    const PANEL: usize = 256;
    #[inline(always)]
    fn encode<S: Simd>(s: S, x: &[f32], importance: Option<&[f32]>, out: &mut [u8]) {
        let (scale, q) = s.call(TernaryScale { x, importance });
        for i in 0..32 {
            out[i] = digits([q[i], q[i + 32], q[i + 64], q[i + 96], q[i + 128]]);
        }
        for i in 0..16 {
            let q = &q[160 + i..];
            out[32 + i] = digits([q[0], q[16], q[32], q[48], q[64]]);
        }
        for i in 0..4 {
            let q = &q[240 + i..];
            out[48 + i] = digits([q[0], q[4], q[8], q[12], 0]);
        }
        out[52..54].copy_from_slice(&scale.to_le_bytes());
    }
}

/// TQ2_0: two bits each, d f16.
pub(super) struct Tq2_0Encoder;
impl Encode for Tq2_0Encoder {
    const BLOCK: BlockType = BlockType::TQ2_0;
    const PANEL: usize = 256;
    #[inline(always)]
    fn encode<S: Simd>(s: S, x: &[f32], importance: Option<&[f32]>, out: &mut [u8]) {
        let (scale, codes) = s.call(TernaryScale { x, importance });
        super::k_quants::two_bits(&codes, &mut out[..64]);
        out[64..66].copy_from_slice(&scale.to_le_bytes());
    }
}

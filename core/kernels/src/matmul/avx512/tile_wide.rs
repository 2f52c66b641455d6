//! A tile of unpacked weights of a wide format: 32 rows by 256 columns, rows and pairs of groups in lanes.

use std::arch::x86_64::*;

use super::tile_narrow::{TileRows, blocks, store};
use crate::activations::ActivationLayout;
use crate::blocks::{Format, GroupShape, SUPER, WideFormat};
use crate::isa::avx512;
use crate::matmul::unpacked::{IntegerScales, Unpacked};

/// The eight columns of a step for 16 rows: rows 0, 1, 4, 5, 8, 9, 12 and 13, then the others. A quadword holds four
/// columns of each of two groups as unsigned bytes: the value plus 128, or, for formats with minima, the value.
pub(super) type Step = [[u8; 64]; 2];

/// The row vectors of a tile: with four tokens 16 sums and 8 totals in registers.
pub(super) const VECTORS: usize = 2;

/// Unpacked weights. Groups form pairs: adjacent groups of 16 columns; groups of 32 that are one apart: 0 and 2, 1 and
/// 3, 4 and 6, 5 and 7, the order of the activations in `ActivationLayout::PairedSixteens` and
/// `ActivationLayout::PairedGroups`. One instruction then scales two sums of a pair, as 16-bit halves of a dword
/// (`multiply_wide`).
#[repr(C, align(64))]
pub(super) struct WideTile {
    /// `[pair][step][row vector]`: four steps for a pair of groups of 16, eight for one of 32.
    pub(super) q: [[Step; VECTORS]; 32],
    /// The integer scales of each pair as 16-bit halves.
    pub(super) scale: [[[u32; 16]; VECTORS]; 8],
    /// Integer minima of two neighboring groups as 16-bit halves.
    pub(super) min: [[[u32; 16]; VECTORS]; 8],
    /// The factor of the integer scales.
    pub(super) d: [[f32; 16]; VECTORS],
    /// The factor of the integer minima.
    pub(super) dmin: [[f32; 16]; VECTORS],
}

/// A format that can be unpacked to a wide tile.
pub(super) trait PackWide {
    /// The block layout.
    type Blocks: Format;

    /// Unpacks 16 rows as row vector `r` of the tile.
    ///
    /// # Safety
    /// The processor has AVX-512; every row of `rows` has a whole block.
    unsafe fn pack(rows: &TileRows, tile: &mut WideTile, r: usize);
}

/// The order of activations for a shape.
pub(super) const fn order<S: GroupShape>() -> ActivationLayout {
    if S::GROUP == 16 { ActivationLayout::PairedSixteens } else { ActivationLayout::PairedGroups }
}

/// How many steps a pair of groups has.
pub(super) const fn steps<S: GroupShape>() -> usize {
    S::GROUP / 4
}

/// The two groups of a pair.
pub(super) const fn pair<S: GroupShape>(pair: usize) -> [usize; 2] {
    match S::GROUP {
        16 => [2 * pair, 2 * pair + 1],
        _ => [pair / 2 * 4 + pair % 2, pair / 2 * 4 + pair % 2 + 2],
    }
}

/// The integer scales of a pair in one dword.
pub(super) fn halves_of<S: GroupShape>(whole: &IntegerScales, at: usize) -> u32 {
    let [first, second] = pair::<S>(at).map(|group| u32::from(whole.scale[group] as u16));
    first | second << 16
}

avx512! {
/// From 16 rows of 64 bytes, in which two consecutive dwords belong to a pair, the quadwords in lanes: steps of a tile.
#[inline]
pub(super) fn steps_of(rows: [__m512i; 16]) -> [[__m512i; 2]; 8] {
    let each = |from: usize| transpose8([0, 1, 4, 5, 8, 9, 12, 13].map(|row| rows[row + from]));
    let (first, second) = (each(0), each(2));
    let mut steps = [[_mm512_setzero_si512(); 2]; 8];
    for (step, (a, b)) in steps.iter_mut().zip(first.into_iter().zip(second)) {
        *step = [a, b];
    }
    steps
}
}

avx512! {
/// An 8 x 8 transpose of quadwords.
#[inline]
fn transpose8(a: [__m512i; 8]) -> [__m512i; 8] {
    let mut o = a;
    for odd in 0..2 {
        // Lane l of 128 bits: column 2 l + odd of two rows.
        let rows = |i: usize| match odd {
            0 => _mm512_unpacklo_epi64(a[2 * i], a[2 * i + 1]),
            _ => _mm512_unpackhi_epi64(a[2 * i], a[2 * i + 1]),
        };
        let b = [rows(0), rows(1), rows(2), rows(3)];
        let (x0, x1) = (_mm512_shuffle_i32x4::<0x88>(b[0], b[1]), _mm512_shuffle_i32x4::<0xdd>(b[0], b[1]));
        let (y0, y1) = (_mm512_shuffle_i32x4::<0x88>(b[2], b[3]), _mm512_shuffle_i32x4::<0xdd>(b[2], b[3]));
        o[odd] = _mm512_shuffle_i32x4::<0x88>(x0, y0);
        o[4 + odd] = _mm512_shuffle_i32x4::<0xdd>(x0, y0);
        o[2 + odd] = _mm512_shuffle_i32x4::<0x88>(x1, y1);
        o[6 + odd] = _mm512_shuffle_i32x4::<0xdd>(x1, y1);
    }
    o
}
}

avx512! {
/// Puts dwords that are `F::GROUP` bytes apart next to each other, in 64 bytes that hold two pairs of 16 or one pair of
/// 32.
#[inline]
pub(super) fn side_by_side<S: GroupShape>(v: __m512i) -> __m512i {
    let order = if S::GROUP == 16 {
        _mm512_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15)
    } else {
        _mm512_setr_epi32(0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15)
    };
    _mm512_permutexvar_epi32(order, v)
}
}

avx512! {
/// 64 bytes at `at` of every row as the steps of two pairs of 16, or of one pair of 32: `each` takes them in order.
/// Requests the same bytes of the rows that are unpacked next.
///
/// # Safety
/// Every row has 64 readable bytes there.
#[inline]
pub(super) unsafe fn columns<S: GroupShape>(rows: &TileRows, at: usize, mut each: impl FnMut(usize, [__m512i; 2])) {
    let mut a = [_mm512_setzero_si512(); 16];
    for (i, a) in a.iter_mut().enumerate() {
        rows.ask(i, at);
        // SAFETY: the promise of the caller.
        *a = side_by_side::<S>(unsafe { _mm512_loadu_si512(rows.row(i).add(at).cast()) });
    }
    for (step, v) in steps_of(a).into_iter().enumerate() {
        each(step, v);
    }
}
}

avx512! {
/// Stores a step.
#[inline]
pub(super) fn store_step(to: &mut Step, v: [__m512i; 2]) {
    let [first, second] = to;
    store(first, v[0]);
    store(second, v[1]);
}
}

/// Unpacks any wide format without minima through `Format::expand`.
pub(super) struct UnpackWide<F: WideFormat>(F);

impl<F: WideFormat> PackWide for UnpackWide<F> {
    type Blocks = F;

    avx512! {
    unsafe fn pack(rows: &TileRows, tile: &mut WideTile, r: usize) {
        const { assert!(!F::MIN, "a format that keeps no minima") }
        let mut w = [Unpacked::ZERO; 16];
        for (i, w) in w.iter_mut().enumerate() {
            rows.ask_row(i, F::BYTES);
            // SAFETY: the caller promises a whole block in every row.
            let blocks = unsafe { blocks::<F>(rows, i) };
            w.fill::<F>(blocks);
            let whole = IntegerScales::of::<F>(blocks);
            for (pair, scales) in tile.scale[..SUPER / 2 / F::GROUP].iter_mut().enumerate() {
                scales[r][i] = halves_of::<F::Shape>(&whole, pair);
            }
            tile.d[r][i] = whole.factors.d;
        }
        let flip = _mm512_set1_epi8(-128);
        for part in 0..4 {
            // Two pairs of 16 follow each other there; the second group of a pair of 32 is 64 bytes further on.
            let [first, second] = if F::GROUP == 16 { [64 * part, 64 * part + 32] } else { pair::<F::Shape>(part).map(|g| 32 * g) };
            let a = w.each_ref().map(|w| {
                // SAFETY: both begin at most 32 before the end of 256.
                let [low, high] = unsafe {
                    [first, second].map(|at| _mm256_loadu_si256(w.q.as_ptr().add(at).cast()))
                };
                side_by_side::<F::Shape>(_mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high))
            });
            for (step, v) in steps_of(a).into_iter().enumerate() {
                store_step(&mut tile.q[8 * part + step][r], v.map(|v| _mm512_xor_si512(v, flip)));
            }
        }
    }
    }
}

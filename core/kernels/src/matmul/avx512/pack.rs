//! Unpacking to tiles: the K-quants.

use std::arch::x86_64::*;

use super::tile::{Rows, Tile, TileFormat, halves, store, store_dwords, store_floats, transpose16};
use crate::blocks::{Q2K, Q4K, Q5K, Q6K};
use crate::isa::avx512;

avx512! {
/// 64 bytes at `at` of every row, transposed: vector `j` holds bytes `4 j` to `4 j + 3` of each row.
///
/// # Safety
/// Every row has 64 readable bytes there.
#[inline]
unsafe fn columns(rows: &Rows, at: usize) -> [__m512i; 16] {
    let mut a = [_mm512_setzero_si512(); 16];
    for (i, a) in a.iter_mut().enumerate() {
        // SAFETY: the promise of the caller.
        *a = unsafe { _mm512_loadu_si512(rows.row(i).add(at).cast()) };
    }
    transpose16(a)
}
}

avx512! {
/// The dwords at `at` of every row.
///
/// # Safety
/// Every row has four readable bytes there.
#[inline]
unsafe fn dwords(rows: &Rows, at: usize) -> __m512i {
    // SAFETY: the promise of the caller.
    unsafe { _mm512_i32gather_epi32::<1>(rows.offsets(), rows.start.add(at).cast()) }
}
}

avx512! {
/// Shifts dwords right by a variable number of bits.
#[inline]
fn shift(v: __m512i, bits: usize) -> __m512i {
    _mm512_srlv_epi32(v, _mm512_set1_epi32(bits as i32))
}
}

avx512! {
/// The d, dmin and twelve scale bytes that open a Q4_K or Q5_K block.
///
/// # Safety
/// Every row has a whole block.
#[inline]
unsafe fn open_block<const R: usize>(rows: &Rows, tile: &mut Tile<R>, r: usize) {
    // SAFETY: the promise of the caller: 16 bytes open the block.
    let [head, u0, u1, u2] = unsafe { [dwords(rows, 0), dwords(rows, 4), dwords(rows, 8), dwords(rows, 12)] };
    store_floats(&mut tile.d[r], halves(head));
    store_floats(&mut tile.dmin[r], halves(_mm512_srli_epi32::<16>(head)));
    let (m63, m15, m48) = (_mm512_set1_epi32(63), _mm512_set1_epi32(15), _mm512_set1_epi32(48));
    let mut scale = [_mm512_setzero_si512(); 8];
    let mut min = scale;
    for g in 0..4 {
        let n = 8 * g;
        scale[g] = _mm512_and_si512(shift(u0, n), m63);
        min[g] = _mm512_and_si512(shift(u1, n), m63);
        let (low, high) = (_mm512_and_si512(shift(u2, n), m15), _mm512_and_si512(shift(u0, n + 2), m48));
        scale[g + 4] = _mm512_or_si512(low, high);
        let (low, high) = (_mm512_and_si512(shift(u2, n + 4), m15), _mm512_and_si512(shift(u1, n + 2), m48));
        min[g + 4] = _mm512_or_si512(low, high);
    }
    for (g, scale) in scale.into_iter().enumerate() {
        store_dwords(&mut tile.scale[g][r], scale);
    }
    for g in 0..4 {
        let pair = _mm512_or_si512(min[2 * g], _mm512_slli_epi32::<16>(min[2 * g + 1]));
        store_dwords(&mut tile.min[g][r], pair);
    }
}
}

impl TileFormat for Q4K {
    type Blocks = Q4K;

    avx512! {
    unsafe fn pack<const R: usize>(rows: &Rows, tile: &mut Tile<R>, r: usize) {
        let m4 = _mm512_set1_epi8(15);
        for half in 0..2 {
            // SAFETY: the caller promises a whole block of 144 bytes in every row.
            let q = unsafe { columns(rows, 16 + half * 64) };
            for (j, v) in q.into_iter().enumerate() {
                let g = 4 * half + j / 8 * 2;
                store(&mut tile.q[g][j % 8][r], _mm512_and_si512(v, m4));
                store(&mut tile.q[g + 1][j % 8][r], _mm512_and_si512(_mm512_srli_epi16::<4>(v), m4));
            }
        }
        // SAFETY: as above.
        unsafe { open_block(rows, tile, r) }
    }
    }
}

impl TileFormat for Q5K {
    type Blocks = Q5K;

    avx512! {
    unsafe fn pack<const R: usize>(rows: &Rows, tile: &mut Tile<R>, r: usize) {
        let (m4, m16) = (_mm512_set1_epi8(15), _mm512_set1_epi8(16));
        // SAFETY: the caller promises a whole block of 176 bytes in every row: 16 of scales, 32 of high bits, 128
        // of nibbles.
        let (first, middle, last) = unsafe { (columns(rows, 16), columns(rows, 80), columns(rows, 112)) };
        for j in 0..8 {
            let high = first[j];
            let low = [first[8 + j], middle[j], last[j], last[8 + j]];
            for (pair, v) in low.into_iter().enumerate() {
                let n = _mm512_set1_epi32(2 * pair as i32);
                let high = _mm512_srlv_epi32(high, n);
                let even = _mm512_and_si512(_mm512_slli_epi32::<4>(high), m16);
                let odd = _mm512_and_si512(_mm512_slli_epi32::<3>(high), m16);
                store(&mut tile.q[2 * pair][j][r], _mm512_or_si512(_mm512_and_si512(v, m4), even));
                let v = _mm512_and_si512(_mm512_srli_epi16::<4>(v), m4);
                store(&mut tile.q[2 * pair + 1][j][r], _mm512_or_si512(v, odd));
            }
        }
        // SAFETY: as above.
        unsafe { open_block(rows, tile, r) }
    }
    }
}

impl TileFormat for Q6K {
    type Blocks = Q6K;

    avx512! {
    unsafe fn pack<const R: usize>(rows: &Rows, tile: &mut Tile<R>, r: usize) {
        let (m4, m48) = (_mm512_set1_epi8(15), _mm512_set1_epi8(48));
        // The value is q - 32; the tile wants 128 more.
        let plus = _mm512_set1_epi8(96);
        // SAFETY: the caller promises a whole block of 210 bytes in every row: 128 low, 64 high, 16 scales, d.
        let high = unsafe { columns(rows, 128) };
        for half in 0..2 {
            // SAFETY: as above.
            let low = unsafe { columns(rows, half * 64) };
            for j in 0..8 {
                let h = high[half * 8 + j];
                let (a, b) = (low[j], low[8 + j]);
                let parts = [
                    (_mm512_and_si512(a, m4), _mm512_slli_epi32::<4>(h)),
                    (_mm512_and_si512(b, m4), _mm512_slli_epi32::<2>(h)),
                    (_mm512_and_si512(_mm512_srli_epi16::<4>(a), m4), h),
                    (_mm512_and_si512(_mm512_srli_epi16::<4>(b), m4), _mm512_srli_epi32::<2>(h)),
                ];
                for (n, (low, high)) in parts.into_iter().enumerate() {
                    let v = _mm512_or_si512(low, _mm512_and_si512(high, m48));
                    store(&mut tile.q[half * 4 + n][j][r], _mm512_add_epi8(v, plus));
                }
            }
        }
        // SAFETY: as above: d is the upper half of the dword that ends the block.
        store_floats(&mut tile.d[r], halves(_mm512_srli_epi32::<16>(unsafe { dwords(rows, 206) })));
        for four in 0..4 {
            // SAFETY: as above.
            let mut bytes = unsafe { dwords(rows, 192 + 4 * four) };
            for i in 0..4 {
                let scale = _mm512_srai_epi32::<24>(_mm512_slli_epi32::<24>(bytes));
                store_dwords(&mut tile.scale[4 * four + i][r], scale);
                bytes = _mm512_srli_epi32::<8>(bytes);
            }
        }
    }
    }
}

impl TileFormat for Q2K {
    type Blocks = Q2K;

    avx512! {
    unsafe fn pack<const R: usize>(rows: &Rows, tile: &mut Tile<R>, r: usize) {
        let m2 = _mm512_set1_epi8(3);
        // SAFETY: the caller promises a whole block of 84 bytes in every row: 16 scales, 64 of values, d, dmin.
        let (q, head) = unsafe { (columns(rows, 16), dwords(rows, 80)) };
        for (j, v) in q.into_iter().enumerate() {
            for n in 0..4 {
                let v = _mm512_and_si512(shift(v, 2 * n), m2);
                store(&mut tile.q[j / 8 * 4 + n][j % 8][r], v);
            }
        }
        store_floats(&mut tile.d[r], halves(head));
        store_floats(&mut tile.dmin[r], halves(_mm512_srli_epi32::<16>(head)));
        let (m15, low) = (_mm512_set1_epi32(15), _mm512_set1_epi32(0xf_000f));
        for four in 0..4 {
            // SAFETY: as above.
            let bytes = unsafe { dwords(rows, 4 * four) };
            for i in 0..4 {
                let scale = _mm512_and_si512(shift(bytes, 8 * i), m15);
                store_dwords(&mut tile.scale[4 * four + i][r], scale);
            }
            // Minima of the groups 4 four and + 1, then + 2 and + 3, in 16-bit halves.
            let spread = |v: __m512i| {
                let second = _mm512_slli_epi32::<8>(_mm512_and_si512(v, _mm512_set1_epi32(0xff00)));
                _mm512_or_si512(_mm512_and_si512(v, _mm512_set1_epi32(0xff)), second)
            };
            for (i, v) in [bytes, _mm512_srli_epi32::<16>(bytes)].into_iter().enumerate() {
                let min = _mm512_and_si512(_mm512_srli_epi32::<4>(spread(v)), low);
                store_dwords(&mut tile.min[2 * four + i][r], min);
            }
        }
    }
    }
}

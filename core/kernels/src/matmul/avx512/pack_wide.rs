//! Unpacking to wide tiles: the K-quants.

use std::arch::x86_64::*;

use super::tile_narrow::{TileRows, halves, store_dwords, store_floats};
use super::tile_wide::{PackWide, WideTile, columns, pair, side_by_side, steps_of, store_step};
use crate::blocks::{Format, GroupShape, Q2K, Q3K, Q4K, Q5K, Q6K};
use crate::isa::avx512;

avx512! {
/// Shifts dwords right by a variable number of bits.
#[inline]
fn shift(v: __m512i, bits: usize) -> __m512i {
    _mm512_srlv_epi32(v, _mm512_set1_epi32(bits as i32))
}
}

avx512! {
/// Two numbers as the 16-bit halves of dwords; the second's upper half is lost.
#[inline]
fn two_halves(first: __m512i, second: __m512i) -> __m512i {
    _mm512_or_si512(_mm512_and_si512(first, _mm512_set1_epi32(0xffff)), _mm512_slli_epi32::<16>(second))
}
}

avx512! {
/// Stores the scales of eight groups in pairs.
#[inline]
fn store_scales<S: GroupShape>(tile: &mut WideTile, r: usize, scale: [__m512i; 8]) {
    for (at, scales) in tile.scale[..4].iter_mut().enumerate() {
        let [first, second] = pair::<S>(at).map(|group| scale[group]);
        store_dwords(&mut scales[r], two_halves(first, second));
    }
}
}

avx512! {
/// The d, dmin and twelve scale bytes at the beginning of a Q4_K or Q5_K block.
///
/// # Safety
/// Every row has a whole block.
#[inline]
unsafe fn open_block<S: GroupShape>(rows: &TileRows, tile: &mut WideTile, r: usize) {
    rows.ask_all(0);
    // SAFETY: the promise of the caller: 16 bytes open the block.
    let [head, u0, u1, u2] = unsafe { rows.four_dwords(0) };
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
    store_scales::<S>(tile, r, scale);
    for g in 0..4 {
        store_dwords(&mut tile.min[g][r], two_halves(min[2 * g], min[2 * g + 1]));
    }
}
}

impl PackWide for Q4K {
    type Blocks = Q4K;

    avx512! {
    unsafe fn pack(rows: &TileRows, tile: &mut WideTile, r: usize) {
        let m4 = _mm512_set1_epi8(15);
        for half in 0..2 {
            let each = |step: usize, v: [__m512i; 2]| {
                let low = v.map(|v| _mm512_and_si512(v, m4));
                let high = v.map(|v| _mm512_and_si512(_mm512_srli_epi16::<4>(v), m4));
                store_step(&mut tile.q[16 * half + step][r], low);
                store_step(&mut tile.q[16 * half + 8 + step][r], high);
            };
            // SAFETY: the caller promises a whole block of 144 bytes in every row.
            unsafe { columns::<<Q4K as Format>::Shape>(rows, 16 + half * 64, each) }
        }
        // SAFETY: as above.
        unsafe { open_block::<<Q4K as Format>::Shape>(rows, tile, r) }
    }
    }
}

avx512! {
/// The 32 bytes of high bits of a Q5_K block, for both groups of a pair.
///
/// # Safety
/// Every row has a whole block.
#[inline]
unsafe fn high_bits(rows: &TileRows) -> [[__m512i; 2]; 8] {
    let mut a = [_mm512_setzero_si512(); 16];
    for (i, a) in a.iter_mut().enumerate() {
        // SAFETY: the promise of the caller.
        let bits = unsafe { _mm256_loadu_si256(rows.row(i).add(16).cast()) };
        *a = side_by_side::<<Q5K as Format>::Shape>(_mm512_broadcast_i64x4(bits));
    }
    steps_of(a)
}
}

impl PackWide for Q5K {
    type Blocks = Q5K;

    avx512! {
    unsafe fn pack(rows: &TileRows, tile: &mut WideTile, r: usize) {
        let (m4, m16) = (_mm512_set1_epi8(15), _mm512_set1_epi8(16));
        // SAFETY: the caller promises a whole block of 176 bytes in every row: 16 of scales, 32 of high bits, 128
        // of nibbles.
        let high = unsafe { high_bits(rows) };
        for half in 0..2 {
            let each = |step: usize, v: [__m512i; 2]| {
                for nibble in 0..2 {
                    let at = 2 * half + nibble;
                    let [first, second] = pair::<<Q5K as Format>::Shape>(at).map(|group| group as i64);
                    // The group's bit is the lowest of its bytes, then the fifth.
                    let bit = _mm512_set1_epi64(first | second << 32);
                    let up = |h: __m512i| _mm512_slli_epi32::<4>(_mm512_srlv_epi32(h, bit));
                    let fifth = high[step].map(|h| _mm512_and_si512(up(h), m16));
                    let low = v.map(|v| _mm512_and_si512(shift(v, 4 * nibble), m4));
                    let q = [_mm512_or_si512(low[0], fifth[0]), _mm512_or_si512(low[1], fifth[1])];
                    store_step(&mut tile.q[8 * at + step][r], q);
                }
            };
            // SAFETY: as above.
            unsafe { columns::<<Q5K as Format>::Shape>(rows, 48 + half * 64, each) }
        }
        // SAFETY: as above.
        unsafe { open_block::<<Q5K as Format>::Shape>(rows, tile, r) }
    }
    }
}

/// The bytes 0 and 1 of a dword, or 2 and 3, each to the upper byte of a word.
const UPPER_BYTES: [u32; 2] = [0x0180_0080, 0x0380_0280];

avx512! {
/// Two bytes of every dword, with their signs, as 16-bit halves.
#[inline]
fn two_bytes(v: __m512i, which: u32) -> __m512i {
    let lanes = _mm512_broadcast_i32x4(_mm_setr_epi32(0, 0x0400_0400, 0x0800_0800, 0x0c00_0c00));
    let at = _mm512_add_epi32(_mm512_set1_epi32(which as i32), lanes);
    _mm512_srai_epi16::<8>(_mm512_shuffle_epi8(v, at))
}
}

impl PackWide for Q6K {
    type Blocks = Q6K;

    avx512! {
    unsafe fn pack(rows: &TileRows, tile: &mut WideTile, r: usize) {
        let (m4, m48) = (_mm512_set1_epi8(15), _mm512_set1_epi8(48));
        // The value is q - 32; the tile holds 128 more.
        let plus = _mm512_set1_epi8(96);
        let mut high = [[_mm512_setzero_si512(); 2]; 8];
        // SAFETY: the caller promises a whole block of 210 bytes in every row: 128 low, 64 high, 16 scales, d.
        unsafe { columns::<<Q6K as Format>::Shape>(rows, 128, |step, v| high[step] = v) };
        for half in 0..2 {
            let each = |step: usize, v: [__m512i; 2]| {
                // The lower nibbles are the first 64 columns of the half, the upper ones the others.
                let (bits, n) = (high[4 * half + step % 4], step / 4);
                for (n, up) in [(n, 4 - 2 * n), (n + 2, 0)] {
                    let part = |v: __m512i, h: __m512i| {
                        let low = _mm512_and_si512(shift(v, 4 * (n / 2)), m4);
                        let h = if up > 0 { _mm512_sllv_epi32(h, _mm512_set1_epi32(up as i32)) } else { shift(h, 2 * n - 4) };
                        _mm512_add_epi8(_mm512_or_si512(low, _mm512_and_si512(h, m48)), plus)
                    };
                    let q = [part(v[0], bits[0]), part(v[1], bits[1])];
                    store_step(&mut tile.q[16 * half + 4 * n + step % 4][r], q);
                }
            };
            // SAFETY: as above.
            unsafe { columns::<<Q6K as Format>::Shape>(rows, half * 64, each) }
        }
        rows.ask_all(192);
        // SAFETY: as above: d is the upper half of the dword that ends the block.
        store_floats(&mut tile.d[r], halves(_mm512_srli_epi32::<16>(unsafe { rows.dwords(206) })));
        // SAFETY: as above.
        for (four, bytes) in unsafe { rows.four_dwords(192) }.into_iter().enumerate() {
            for (i, which) in UPPER_BYTES.into_iter().enumerate() {
                store_dwords(&mut tile.scale[2 * four + i][r], two_bytes(bytes, which));
            }
        }
    }
    }
}

avx512! {
/// The integer scales of a Q3_K block, four bytes per dword.
///
/// # Safety
/// Every row has a whole block.
#[inline]
unsafe fn six_bits(rows: &TileRows) -> [__m512i; 4] {
    // SAFETY: the promise of the caller: 12 bytes after 32 of high bits and 64 of values.
    let [a, b, high] = unsafe { [96, 100, 104].map(|at| rows.dwords(at)) };
    let (m15, m48) = (_mm512_set1_epi8(15), _mm512_set1_epi8(48));
    let mut scale = [a, b, shift(a, 4), shift(b, 4)];
    for (i, scale) in scale.iter_mut().enumerate() {
        // Bits that cross the edges of bytes are masked away.
        let up = _mm512_and_si512(_mm512_slli_epi32::<4>(shift(high, 2 * i)), m48);
        *scale = _mm512_sub_epi8(_mm512_or_si512(_mm512_and_si512(*scale, m15), up), _mm512_set1_epi8(32));
    }
    scale
}
}

impl PackWide for Q3K {
    type Blocks = Q3K;

    avx512! {
    unsafe fn pack(rows: &TileRows, tile: &mut WideTile, r: usize) {
        let (m2, m4) = (_mm512_set1_epi8(3), _mm512_set1_epi8(4));
        // The value is q - 4; the tile holds 128 more.
        let plus = _mm512_set1_epi8(124);
        let mut high = [[_mm512_setzero_si512(); 2]; 8];
        // SAFETY: the caller promises a whole block of 110 bytes in every row: 32 of high bits, 64 of values, 12 of
        // scales, d.
        unsafe { columns::<<Q3K as Format>::Shape>(rows, 0, |step, v| high[step] = v) };
        let each = |step: usize, v: [__m512i; 2]| {
            for n in 0..4 {
                let group = step / 4 * 4 + n;
                let part = |v: __m512i, high: __m512i| {
                    let low = _mm512_and_si512(shift(v, 2 * n), m2);
                    let high = _mm512_and_si512(_mm512_slli_epi32::<2>(shift(high, group)), m4);
                    _mm512_add_epi8(_mm512_or_si512(low, high), plus)
                };
                let high = high[step % 4];
                store_step(&mut tile.q[4 * group + step % 4][r], [part(v[0], high[0]), part(v[1], high[1])]);
            }
        };
        // SAFETY: as above.
        unsafe { columns::<<Q3K as Format>::Shape>(rows, 32, each) };
        rows.ask_all(96);
        // SAFETY: as above: d is the upper half of the dword that ends the block.
        store_floats(&mut tile.d[r], halves(_mm512_srli_epi32::<16>(unsafe { rows.dwords(106) })));
        // SAFETY: as above.
        for (four, bytes) in unsafe { six_bits(rows) }.into_iter().enumerate() {
            for (i, which) in UPPER_BYTES.into_iter().enumerate() {
                store_dwords(&mut tile.scale[2 * four + i][r], two_bytes(bytes, which));
            }
        }
    }
    }
}

impl PackWide for Q2K {
    type Blocks = Q2K;

    avx512! {
    unsafe fn pack(rows: &TileRows, tile: &mut WideTile, r: usize) {
        let m2 = _mm512_set1_epi8(3);
        let each = |step: usize, v: [__m512i; 2]| {
            for n in 0..4 {
                let q = v.map(|v| _mm512_and_si512(shift(v, 2 * n), m2));
                store_step(&mut tile.q[step / 4 * 16 + 4 * n + step % 4][r], q);
            }
        };
        // SAFETY: the caller promises a whole block of 84 bytes in every row: 16 scales, 64 of values, d, dmin.
        let head = unsafe {
            columns::<<Q2K as Format>::Shape>(rows, 16, each);
            rows.dwords(80)
        };
        rows.ask_all(80);
        store_floats(&mut tile.d[r], halves(head));
        store_floats(&mut tile.dmin[r], halves(_mm512_srli_epi32::<16>(head)));
        let m15 = _mm512_set1_epi32(0xf_000f);
        // SAFETY: as above.
        for (four, bytes) in unsafe { rows.four_dwords(0) }.into_iter().enumerate() {
            for (i, two) in [bytes, _mm512_srli_epi32::<16>(bytes)].into_iter().enumerate() {
                let two = two_halves(_mm512_and_si512(two, _mm512_set1_epi32(0xff)), _mm512_srli_epi32::<8>(two));
                store_dwords(&mut tile.scale[2 * four + i][r], _mm512_and_si512(two, m15));
                let min = _mm512_and_si512(_mm512_srli_epi32::<4>(two), m15);
                store_dwords(&mut tile.min[2 * four + i][r], min);
            }
        }
    }
    }
}

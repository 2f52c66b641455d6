//! Unpacking to tiles: the formats with 16 bytes of nibbles per 32 columns, and Q8_0.

use std::arch::x86_64::*;

use super::tile_narrow::{
    NarrowTile, TileFormat, TileRows, VECTORS, halves, store, store_floats, transpose16,
};
use crate::blocks::{Format, IQ4_LEVELS, Iq4Nl, Iq4Xs, MXFP4_LEVELS, Mxfp4, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0};
use crate::isa::avx512;

/// How nibbles become bytes.
#[derive(Clone, Copy)]
enum NibbleMap {
    /// The nibble plus so much.
    Plus(i8),
    /// An entry of a table, plus 128.
    Table(&'static [i8; 16]),
}

avx512! {
/// The bytes for nibbles in the lower halves of bytes.
#[inline]
fn decode(code: NibbleMap, v: __m512i) -> __m512i {
    match code {
        NibbleMap::Plus(0) => v,
        NibbleMap::Plus(n) => _mm512_add_epi8(v, _mm512_set1_epi8(n)),
        NibbleMap::Table(table) => {
            // SAFETY: the table has 16 bytes.
            let table = unsafe { _mm_loadu_si128(table.as_ptr().cast()) };
            _mm512_xor_si512(_mm512_shuffle_epi8(_mm512_broadcast_i32x4(table), v), _mm512_set1_epi8(-128))
        }
    }
}
}

avx512! {
/// The groups' 16 bytes of nibbles each, for 16 rows, to bytes of the tile, and requests for the rows that are unpacked
/// next. The nibbles of group `g` are at `first + g * step` in a row.
///
/// # Safety
/// Every row has `rows.groups` groups there.
#[inline]
unsafe fn nibbles(
    rows: &TileRows,
    (first, step): (usize, usize),
    decode: impl Fn(__m512i) -> __m512i,
    (tile, r): (&mut NarrowTile, usize),
) {
    for (g, to) in tile.q.iter_mut().enumerate().take(rows.groups) {
        rows.ask_turn(g, first + rows.groups * step);
        // SAFETY: the promise of the caller.
        let dwords = unsafe { rows.four_dwords(first + g * step) };
        for (j, v) in dwords.into_iter().enumerate() {
            store_nibbles(to, j, &decode, (v, r));
        }
    }
}
}

avx512! {
/// Dword `j` of a group's nibbles, of 16 rows, to bytes of the group.
#[inline]
fn store_nibbles(
    to: &mut [[[u8; 64]; VECTORS]; 8],
    j: usize,
    decode: &impl Fn(__m512i) -> __m512i,
    (v, r): (__m512i, usize),
) {
    let m4 = _mm512_set1_epi8(15);
    store(&mut to[j][r], decode(_mm512_and_si512(v, m4)));
    store(&mut to[j + 4][r], decode(_mm512_and_si512(_mm512_srli_epi16::<4>(v), m4)));
}
}

avx512! {
/// The dwords at `at` of block `g` of every row.
///
/// # Safety
/// Every row has such a block, four bytes from `at` on lie in it.
#[inline]
unsafe fn dwords<F: Format>(rows: &TileRows, g: usize, at: usize) -> __m512i {
    // SAFETY: the promise of the caller.
    unsafe { rows.dwords(g * F::BYTES + at) }
}
}

avx512! {
/// Adds the fifth bits, a dword of each row, to a group of the tile.
#[inline]
fn add_fifth_bits(to: &mut [[[u8; 64]; VECTORS]; 8], mut bits: __m512i, r: usize) {
    // Entry n: bit i of n as bit 4 of byte i.
    let spread = _mm512_setr_epi32(
        0, 0x10, 0x1000, 0x1010, 0x10_0000, 0x10_0010, 0x10_1000, 0x10_1010, 0x1000_0000, 0x1000_0010, 0x1000_1000,
        0x1000_1010, 0x1010_0000, 0x1010_0010, 0x1010_1000, 0x1010_1010,
    );
    for to in to {
        let high = _mm512_permutexvar_epi32(bits, spread);
        // SAFETY: 64 readable bytes.
        let low = unsafe { _mm512_loadu_si512(to[r].as_ptr().cast()) };
        store(&mut to[r], _mm512_add_epi8(low, high));
        bits = _mm512_srli_epi32::<4>(bits);
    }
}
}

avx512! {
/// The scales of group `g` and, if there are any, its minima: the halves of a dword of each row.
#[inline]
fn store_head<F: Format>((tile, r): (&mut NarrowTile, usize), g: usize, head: __m512i) {
    store_floats(&mut tile.scale[g][r], halves(head));
    if F::MIN {
        let min = halves(_mm512_srli_epi32::<16>(head));
        store_floats(&mut tile.min[g][r], _mm512_sub_ps(_mm512_setzero_ps(), min));
    }
}
}

avx512! {
/// Sixteen dwords of a whole panel of blocks of whole dwords, from dword `AT` on, or eight if there are no more: the
/// head of a block, its fifth bits if there are any, and nibbles.
///
/// # Safety
/// Every row has eight blocks.
#[inline]
unsafe fn block_dwords<F: Format, const AT: usize>(
    rows: &TileRows,
    (tile, r): (&mut NarrowTile, usize),
    fifth: &mut [__m512i; 8],
) {
    rows.ask_all(4 * AT);
    // SAFETY: the promise of the caller: so many bytes of eight blocks.
    let v = unsafe {
        if AT + 16 <= 2 * F::BYTES {
            transpose16(std::array::from_fn(|i| _mm512_loadu_si512(rows.row(i).add(4 * AT).cast())))
        } else {
            let ([a, b, c, d], [e, f, g, h]) = (rows.four_dwords(4 * AT), rows.four_dwords(4 * AT + 16));
            [a, b, c, d, e, f, g, h, a, b, c, d, e, f, g, h]
        }
    };
    // Written out, so that the places are constants.
    macro_rules! each {
        ($($i:literal)*) => {$(
            let (g, at) = ((AT + $i) / (F::BYTES / 4), (AT + $i) % (F::BYTES / 4));
            if g < 8 {
                match F::BYTES / 4 - at {
                    n @ 1..=4 => store_nibbles(&mut tile.q[g], 4 - n, &|v| v, (v[$i], r)),
                    5 if F::BYTES == 24 => fifth[g] = v[$i],
                    _ => store_head::<F>((&mut *tile, r), g, v[$i]),
                }
            }
        )*};
    }
    each!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
}
}

avx512! {
/// A whole panel of blocks of whole dwords: they are transposed as they are, heads and all.
///
/// # Safety
/// Every row has eight blocks, of 20 or 24 bytes.
#[inline]
unsafe fn whole_panel<F: Format>(rows: &TileRows, (tile, r): (&mut NarrowTile, usize)) {
    let mut fifth = [_mm512_setzero_si512(); 8];
    // SAFETY: the promise of the caller.
    unsafe {
        block_dwords::<F, 0>(rows, (tile, r), &mut fifth);
        block_dwords::<F, 16>(rows, (tile, r), &mut fifth);
        block_dwords::<F, 32>(rows, (tile, r), &mut fifth);
    }
    if F::BYTES == 24 {
        for (to, bits) in tile.q.iter_mut().zip(fifth) {
            add_fifth_bits(to, bits, r);
        }
    }
}
}

macro_rules! f16_nibbles {
    ($($name:ident: $code:expr, fifth: $fifth:expr;)*) => {$(
        impl TileFormat for $name {
            type Blocks = $name;

            avx512! {
            unsafe fn pack(rows: &TileRows, tile: &mut NarrowTile, r: usize) {
                // SAFETY: the caller promises `rows.groups` whole blocks in every row; the offsets lie in a block.
                unsafe {
                    if const { $name::BYTES.is_multiple_of(4) } && rows.groups == 8 {
                        return whole_panel::<$name>(rows, (tile, r));
                    }
                    nibbles(rows, ($name::BYTES - 16, $name::BYTES), |v| decode($code, v), (tile, r));
                    for g in 0..rows.groups {
                        store_head::<$name>((tile, r), g, dwords::<$name>(rows, g, 0));
                        let fifth: Option<usize> = $fifth;
                        if let Some(at) = fifth {
                            add_fifth_bits(&mut tile.q[g], dwords::<$name>(rows, g, at), r);
                        }
                    }
                }
            }
            }
        }
    )*};
}

f16_nibbles! {
    Q4_0: NibbleMap::Plus(120), fifth: None;
    Q4_1: NibbleMap::Plus(0), fifth: None;
    Q5_0: NibbleMap::Plus(112), fifth: Some(2);
    Q5_1: NibbleMap::Plus(0), fifth: Some(4);
    Iq4Nl: NibbleMap::Table(&IQ4_LEVELS), fifth: None;
}

impl TileFormat for Mxfp4 {
    type Blocks = Mxfp4;

    avx512! {
    unsafe fn pack(rows: &TileRows, tile: &mut NarrowTile, r: usize) {
        // SAFETY: the caller promises `rows.groups` whole blocks in every row.
        unsafe {
            let code = NibbleMap::Table(&MXFP4_LEVELS);
            nibbles(rows, (Mxfp4::BYTES - 16, Mxfp4::BYTES), |v| decode(code, v), (tile, r));
            for g in 0..rows.groups {
                let e = _mm512_and_si512(dwords::<Mxfp4>(rows, g, 0), _mm512_set1_epi32(255));
                // Half of 2^(e - 127): a normal number from e = 2 on, a subnormal below.
                let one = _mm512_set1_epi32(1);
                let normal = _mm512_slli_epi32::<23>(_mm512_sub_epi32(e, one));
                let subnormal = _mm512_sllv_epi32(_mm512_set1_epi32(0x0020_0000), e);
                let small = _mm512_cmple_epi32_mask(e, one);
                let bits = _mm512_mask_blend_epi32(small, normal, subnormal);
                store_floats(&mut tile.scale[g][r], _mm512_castsi512_ps(bits));
            }
        }
    }
    }
}

impl TileFormat for Q8_0 {
    type Blocks = Q8_0;

    avx512! {
    unsafe fn pack(rows: &TileRows, tile: &mut NarrowTile, r: usize) {
        let flip = _mm512_set1_epi8(-128);
        for g in 0..rows.groups {
            rows.ask_turn(g, rows.groups * Q8_0::BYTES);
            // SAFETY: the caller promises `rows.groups` blocks in every row: a scale and 32 bytes.
            let (head, halves_of_32) = unsafe {
                (dwords::<Q8_0>(rows, g, 0), [2, 18].map(|at| rows.four_dwords(g * Q8_0::BYTES + at)))
            };
            for (j, v) in halves_of_32.into_iter().flatten().enumerate() {
                store(&mut tile.q[g][j][r], _mm512_xor_si512(v, flip));
            }
            store_floats(&mut tile.scale[g][r], halves(head));
        }
    }
    }
}

impl TileFormat for Iq4Xs {
    type Blocks = Iq4Xs;

    avx512! {
    unsafe fn pack(rows: &TileRows, tile: &mut NarrowTile, r: usize) {
        // SAFETY: the caller promises a whole block of 136 bytes, eight groups, in every row.
        let (head, low) = unsafe {
            nibbles(rows, (8, 16), |v| decode(NibbleMap::Table(&IQ4_LEVELS), v), (tile, r));
            (rows.dwords(0), rows.dwords(4))
        };
        store_floats(&mut tile.d[r], halves(head));
        let high = _mm512_srli_epi32::<16>(head);
        for g in 0..8 {
            let shift = |v: __m512i, n: usize| _mm512_srlv_epi32(v, _mm512_set1_epi32(n as i32));
            let low = _mm512_and_si512(shift(low, 4 * g), _mm512_set1_epi32(15));
            let high = _mm512_and_si512(shift(high, 2 * g), _mm512_set1_epi32(3));
            let scale = _mm512_or_si512(low, _mm512_slli_epi32::<4>(high));
            let scale = _mm512_sub_epi32(scale, _mm512_set1_epi32(32));
            store_floats(&mut tile.scale[g][r], _mm512_castsi512_ps(scale));
        }
    }
    }
}

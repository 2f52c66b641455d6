//! Unpacking to tiles: the formats with 16 bytes of nibbles per 32 columns, and Q8_0.

use std::arch::x86_64::*;

use super::tile_narrow::{NarrowTile, TileFormat, TileRows, halves, store, store_floats, transpose16};
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
/// Four groups' 16 bytes of nibbles each, for 16 rows, to bytes of the tile. `groups` are at `first + i * step` in a
/// row; groups from `rows.groups` on are read from the last group that exists.
///
/// # Safety
/// Every row has `rows.groups` groups at this distance; each has 16 readable bytes.
#[inline]
unsafe fn four_groups(
    rows: &TileRows,
    (first, step): (usize, usize),
    group: usize,
    code: NibbleMap,
    (tile, r): (&mut NarrowTile, usize),
) {
    let mut a = [_mm512_setzero_si512(); 16];
    for (i, a) in a.iter_mut().enumerate() {
        // SAFETY: the offsets are of groups that the caller promises.
        unsafe {
            let row = rows.row(i).add(first);
            let at = |g: usize| _mm_loadu_si128(row.add((group + g).min(rows.groups - 1) * step).cast());
            let low = _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(at(0)), at(1));
            let high = _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(at(2)), at(3));
            *a = _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high);
        }
    }
    let m4 = _mm512_set1_epi8(15);
    for (j, v) in transpose16(a).into_iter().enumerate() {
        let (g, j) = (group + j / 4, j % 4);
        store(&mut tile.q[g][j][r], decode(code, _mm512_and_si512(v, m4)));
        store(&mut tile.q[g][j + 4][r], decode(code, _mm512_and_si512(_mm512_srli_epi16::<4>(v), m4)));
    }
}
}

avx512! {
/// All groups of a row's panel, blocks of `F::BYTES` with the nibbles in the last 16 bytes.
///
/// # Safety
/// Every row has `rows.groups` blocks.
#[inline]
unsafe fn all_groups<F: Format>(rows: &TileRows, code: NibbleMap, (tile, r): (&mut NarrowTile, usize)) {
    for group in (0..rows.groups).step_by(4) {
        // SAFETY: the promise of the caller.
        unsafe { four_groups(rows, (F::BYTES - 16, F::BYTES), group, code, (tile, r)) }
    }
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
    unsafe { _mm512_i32gather_epi32::<1>(rows.offsets(), rows.start.add(g * F::BYTES + at).cast()) }
}
}

avx512! {
/// Adds the fifth bits, 32 of them at `at` in a block, to group `g` of the tile.
///
/// # Safety
/// As `dwords`.
#[inline]
unsafe fn fifth_bits<F: Format>(
    rows: &TileRows,
    g: usize,
    at: usize,
    (tile, r): (&mut NarrowTile, usize),
) {
    // Entry n: bit i of n as bit 4 of byte i.
    let spread = _mm512_setr_epi32(
        0, 0x10, 0x1000, 0x1010, 0x10_0000, 0x10_0010, 0x10_1000, 0x10_1010, 0x1000_0000, 0x1000_0010, 0x1000_1000,
        0x1000_1010, 0x1010_0000, 0x1010_0010, 0x1010_1000, 0x1010_1010,
    );
    // SAFETY: the promise of the caller.
    let mut bits = unsafe { dwords::<F>(rows, g, at) };
    for j in 0..8 {
        let high = _mm512_permutexvar_epi32(bits, spread);
        let to = &mut tile.q[g][j][r];
        // SAFETY: 64 readable bytes.
        let low = unsafe { _mm512_loadu_si512(to.as_ptr().cast()) };
        store(to, _mm512_add_epi8(low, high));
        bits = _mm512_srli_epi32::<4>(bits);
    }
}
}

macro_rules! f16_nibbles {
    ($($name:ident: $code:expr, min: $min:literal, fifth: $fifth:expr;)*) => {$(
        impl TileFormat for $name {
            type Blocks = $name;

            avx512! {
            unsafe fn pack(rows: &TileRows, tile: &mut NarrowTile, r: usize) {
                // SAFETY: the caller promises `rows.groups` whole blocks in every row; the offsets lie in a block.
                unsafe {
                    all_groups::<$name>(rows, $code, (tile, r));
                    for g in 0..rows.groups {
                        let head = dwords::<$name>(rows, g, 0);
                        store_floats(&mut tile.scale[g][r], halves(head));
                        if $min {
                            let min = halves(_mm512_srli_epi32::<16>(head));
                            let min = _mm512_sub_ps(_mm512_setzero_ps(), min);
                            store_floats(&mut tile.min[g][r], min);
                        }
                        let fifth: Option<usize> = $fifth;
                        if let Some(at) = fifth {
                            fifth_bits::<$name>(rows, g, at, (tile, r));
                        }
                    }
                }
            }
            }
        }
    )*};
}

f16_nibbles! {
    Q4_0: NibbleMap::Plus(120), min: false, fifth: None;
    Q4_1: NibbleMap::Plus(0), min: true, fifth: None;
    Q5_0: NibbleMap::Plus(112), min: false, fifth: Some(2);
    Q5_1: NibbleMap::Plus(0), min: true, fifth: Some(4);
    Iq4Nl: NibbleMap::Table(&IQ4_LEVELS), min: false, fifth: None;
}

impl TileFormat for Mxfp4 {
    type Blocks = Mxfp4;

    avx512! {
    unsafe fn pack(rows: &TileRows, tile: &mut NarrowTile, r: usize) {
        // SAFETY: the caller promises `rows.groups` whole blocks in every row.
        unsafe {
            all_groups::<Mxfp4>(rows, NibbleMap::Table(&MXFP4_LEVELS), (tile, r));
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
        for g in (0..rows.groups).step_by(2) {
            let next = (g + 1).min(rows.groups - 1);
            let mut a = [_mm512_setzero_si512(); 16];
            for (i, a) in a.iter_mut().enumerate() {
                // SAFETY: the caller promises `rows.groups` blocks in every row; 32 bytes follow the scale.
                unsafe {
                    let row = rows.row(i).add(2);
                    let low = _mm256_loadu_si256(row.add(g * Q8_0::BYTES).cast());
                    let high = _mm256_loadu_si256(row.add(next * Q8_0::BYTES).cast());
                    *a = _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high);
                }
            }
            for (j, v) in transpose16(a).into_iter().enumerate() {
                store(&mut tile.q[g + j / 8][j % 8][r], _mm512_xor_si512(v, flip));
            }
        }
        for g in 0..rows.groups {
            // SAFETY: as above.
            let d = unsafe { dwords::<Q8_0>(rows, g, 0) };
            store_floats(&mut tile.scale[g][r], halves(d));
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
            for group in [0, 4] {
                four_groups(rows, (8, 16), group, NibbleMap::Table(&IQ4_LEVELS), (tile, r));
            }
            (dwords::<Iq4Xs>(rows, 0, 0), dwords::<Iq4Xs>(rows, 0, 4))
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

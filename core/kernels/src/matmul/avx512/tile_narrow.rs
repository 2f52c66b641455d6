//! A tile of unpacked weights of a narrow format, or of IQ4_XS: 48 rows by 256 columns, rows in lanes.

use std::arch::x86_64::*;

use crate::blocks::{Format, GROUPS, GroupShape, SUPER};
use crate::isa::avx512;
use crate::matmul::unpacked::Unpacked;

/// The row vectors of a tile.
pub(super) const VECTORS: usize = 3;

/// Unpacked weights. A dword of `q` holds four neighboring columns of one row as unsigned bytes: the value plus
/// 128, or, for formats with minima, the value.
#[repr(C, align(64))]
pub(super) struct NarrowTile {
    /// `[columns / 32][dword][row vector][16 rows x 4 columns]`.
    pub(super) q: [[[[u8; 64]; VECTORS]; 8]; 8],
    /// The scale of each group of 16 or 32 columns; for IQ4_XS the bits of integers.
    pub(super) scale: [[[f32; 16]; VECTORS]; GROUPS],
    /// The minimum of each group of 32.
    pub(super) min: [[[f32; 16]; VECTORS]; 8],
    /// IQ4_XS: the factor of the integer scales.
    pub(super) d: [[f32; 16]; VECTORS],
}

/// The location of the blocks of a tile: 16 rows from `start` on, some of which may be the same row.
#[derive(Clone, Copy)]
pub(super) struct TileRows {
    /// The first block of the panel in the first row.
    pub(super) start: *const u8,
    /// From one row to the next, in bytes.
    pub(super) stride: usize,
    /// The last row that exists; rows after it are read from it.
    pub(super) last: usize,
    /// The number of groups of 32 columns in the panel, 1 to 8.
    pub(super) groups: usize,
}

impl TileRows {
    /// The panel's first block in row `i`.
    ///
    /// # Safety
    /// As promised where the value was made: `last + 1` rows are readable.
    #[inline(always)]
    pub(super) unsafe fn row(&self, i: usize) -> *const u8 {
        // SAFETY: the row is at most the last one.
        unsafe { self.start.add(i.min(self.last) * self.stride) }
    }

    avx512! {
    /// The byte offsets of the 16 rows, for gathers.
    #[inline]
    pub(super) fn offsets(&self) -> __m512i {
        let lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
        let rows = _mm512_min_epi32(lanes, _mm512_set1_epi32(self.last as i32));
        _mm512_mullo_epi32(rows, _mm512_set1_epi32(self.stride as i32))
    }
    }
}

/// A format that can be unpacked to a tile.
pub(super) trait TileFormat {
    /// The block layout.
    type Blocks: Format;

    /// Unpacks 16 rows as row vector `r` of the tile.
    ///
    /// # Safety
    /// The processor has AVX-512; every row of `rows` has whole blocks of `rows.groups * 32` readable columns.
    unsafe fn pack(rows: &TileRows, tile: &mut NarrowTile, r: usize);
}

/// Unpacks any format with one activation scale per 32 values through `Format::expand`.
pub(super) struct Unpack<F: Format>(F);

impl<F: Format> TileFormat for Unpack<F> {
    type Blocks = F;

    avx512! {
    unsafe fn pack(rows: &TileRows, tile: &mut NarrowTile, r: usize) {
        let mut w = [Unpacked::ZERO; 16];
        for (i, w) in w.iter_mut().enumerate() {
            // SAFETY: the caller promises this many readable bytes in every row.
            w.fill::<F>(unsafe { blocks::<F>(rows, i) });
            for (scales, scale) in tile.scale.iter_mut().zip(w.scale) {
                scales[r][i] = scale;
            }
        }
        values::<F::Shape>(&w, tile, r);
    }
    }
}

/// The blocks of the panel in row `i`.
///
/// # Safety
/// Every row of `rows` has whole blocks of `rows.groups * 32` readable columns.
#[inline(always)]
pub(super) unsafe fn blocks<F: Format>(rows: &TileRows, i: usize) -> &[u8] {
    // SAFETY: the promise of the caller.
    unsafe { std::slice::from_raw_parts(rows.row(i), rows.groups * 32 / F::LEN * F::BYTES) }
}

avx512! {
/// Transposes unpacked values so that rows are in lanes.
#[inline]
fn values<S: GroupShape>(w: &[Unpacked; 16], tile: &mut NarrowTile, r: usize) {
    let flip = _mm512_set1_epi8(if S::MIN { 0 } else { -128 });
    for part in 0..SUPER / 64 {
        // SAFETY: `part * 64 + 64 <= 256`, the length of `q`.
        let a = w.each_ref().map(|w| unsafe { _mm512_loadu_si512(w.q.as_ptr().add(part * 64).cast()) });
        for (j, v) in transpose16(a).into_iter().enumerate() {
            store(&mut tile.q[part * 2 + j / 8][j % 8][r], _mm512_xor_si512(v, flip));
        }
    }
}
}

avx512! {
/// Stores a vector to 64 bytes of a tile.
#[inline]
pub(super) fn store(to: &mut [u8; 64], v: __m512i) {
    // SAFETY: 64 writable bytes.
    unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), v) }
}
}

avx512! {
/// Stores a vector of dwords.
#[inline]
pub(super) fn store_dwords(to: &mut [u32; 16], v: __m512i) {
    // SAFETY: 64 writable bytes.
    unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), v) }
}
}

avx512! {
/// Stores a vector of floats.
#[inline]
pub(super) fn store_floats(to: &mut [f32; 16], v: __m512) {
    // SAFETY: 64 writable bytes.
    unsafe { _mm512_storeu_ps(to.as_mut_ptr(), v) }
}
}

avx512! {
/// The f16 in the lower half of each dword.
#[inline]
pub(super) fn halves(v: __m512i) -> __m512 {
    _mm512_cvtph_ps(_mm512_cvtepi32_epi16(v))
}
}

avx512! {
/// A 16 x 16 transpose of dwords: 64 shuffles.
#[inline]
pub(super) fn transpose16(a: [__m512i; 16]) -> [__m512i; 16] {
    let mut b = a;
    for i in 0..8 {
        b[2 * i] = _mm512_unpacklo_epi32(a[2 * i], a[2 * i + 1]);
        b[2 * i + 1] = _mm512_unpackhi_epi32(a[2 * i], a[2 * i + 1]);
    }
    // c[4 q + j], 128-bit lane l: rows 4 q to 4 q + 3 of dword 4 l + j.
    let mut c = b;
    for i in 0..4 {
        let q = 4 * i;
        c[q] = _mm512_unpacklo_epi64(b[q], b[q + 2]);
        c[q + 1] = _mm512_unpackhi_epi64(b[q], b[q + 2]);
        c[q + 2] = _mm512_unpacklo_epi64(b[q + 1], b[q + 3]);
        c[q + 3] = _mm512_unpackhi_epi64(b[q + 1], b[q + 3]);
    }
    let mut o = c;
    for j in 0..4 {
        let x0 = _mm512_shuffle_i32x4::<0x88>(c[j], c[4 + j]);
        let x1 = _mm512_shuffle_i32x4::<0xdd>(c[j], c[4 + j]);
        let y0 = _mm512_shuffle_i32x4::<0x88>(c[8 + j], c[12 + j]);
        let y1 = _mm512_shuffle_i32x4::<0xdd>(c[8 + j], c[12 + j]);
        o[j] = _mm512_shuffle_i32x4::<0x88>(x0, y0);
        o[8 + j] = _mm512_shuffle_i32x4::<0xdd>(x0, y0);
        o[4 + j] = _mm512_shuffle_i32x4::<0x88>(x1, y1);
        o[12 + j] = _mm512_shuffle_i32x4::<0xdd>(x1, y1);
    }
    o
}
}

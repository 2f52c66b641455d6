//! A tile of unpacked weights of a narrow format, or of IQ4_XS: 48 rows by 256 columns, rows in lanes.

use std::arch::x86_64::*;

use crate::blocks::{Format, GROUPS, GroupShape, Matrix, SUPER};
use crate::isa::avx512;
use crate::matmul::tiles::TileRegion;
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
    /// From a byte of the blocks to the same byte of those that are unpacked next ([`ahead`]).
    pub(super) ahead: usize,
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

    /// Prefetches the line with byte `at` of row `i` of the rows that are unpacked next. Requests are spread over
    /// unpacking: many at once would wait for each other, and the loads after them too.
    #[inline(always)]
    pub(super) fn ask(&self, i: usize, at: usize) {
        let p = self.start.wrapping_add(i.min(self.last) * self.stride + at).wrapping_add(self.ahead);
        // SAFETY: a prefetch accesses no memory that the program can observe, and x86-64 always has it.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(p.cast()) };
    }

    /// Prefetches the first `bytes` bytes of row `i`.
    #[inline(always)]
    pub(super) fn ask_row(&self, i: usize, bytes: usize) {
        for at in (0..bytes).step_by(64) {
            self.ask(i, at);
        }
    }

    /// Prefetches the first `bytes` bytes of the rows whose turn is with group `g`: two, and with the last group the
    /// rest.
    #[inline(always)]
    pub(super) fn ask_turn(&self, g: usize, bytes: usize) {
        let end = if g + 1 == self.groups { 16 } else { 2 * g + 2 };
        for i in 2 * g..end {
            self.ask_row(i, bytes);
        }
    }

    /// Prefetches the line with byte `at` of all rows.
    #[inline(always)]
    pub(super) fn ask_all(&self, at: usize) {
        for i in 0..16 {
            self.ask(i, at);
        }
    }

    avx512! {
    /// The dword at `at` of every row. Sixteen loads: a gather takes three times as long on Cascade Lake.
    ///
    /// # Safety
    /// Every row has four readable bytes there.
    #[inline]
    pub(super) unsafe fn dwords(&self, at: usize) -> __m512i {
        // SAFETY: the promise of the caller.
        let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] =
            std::array::from_fn(|i| unsafe { self.row(i).add(at).cast::<i32>().read_unaligned() });
        _mm512_setr_epi32(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p)
    }
    }

    avx512! {
    /// The four dwords at `at` of every row, rows in lanes. Sixteen bytes of four rows are loaded to a vector, so that
    /// each row is moved by half as many shuffles as in [`transpose16`].
    ///
    /// # Safety
    /// Every row has 16 readable bytes there.
    #[inline]
    pub(super) unsafe fn four_dwords(&self, at: usize) -> [__m512i; 4] {
        // SAFETY: the promise of the caller.
        let row = |i: usize| unsafe { _mm_loadu_si128(self.row(i).add(at).cast()) };
        // Quarter l: row 4 l + i.
        let [a, b, c, d] = [0, 1, 2, 3].map(|i| {
            let v = _mm512_inserti32x4::<1>(_mm512_castsi128_si512(row(i)), row(4 + i));
            _mm512_inserti32x4::<3>(_mm512_inserti32x4::<2>(v, row(8 + i)), row(12 + i))
        });
        let low = [_mm512_unpacklo_epi32(a, b), _mm512_unpacklo_epi32(c, d)];
        let high = [_mm512_unpackhi_epi32(a, b), _mm512_unpackhi_epi32(c, d)];
        [
            _mm512_unpacklo_epi64(low[0], low[1]),
            _mm512_unpackhi_epi64(low[0], low[1]),
            _mm512_unpacklo_epi64(high[0], high[1]),
            _mm512_unpackhi_epi64(high[0], high[1]),
        ]
    }
    }
}

/// The distance from a byte of a place to the same byte of the one that is unpacked next, in tiles of so many rows.
#[inline(always)]
pub(super) fn ahead<F: Format>(w: &Matrix, place: TileRegion, rows: usize) -> usize {
    if place.start + SUPER < w.cols() {
        return SUPER / F::LEN * F::BYTES;
    }
    (rows * w.row_bytes()).wrapping_sub(place.start / F::LEN * F::BYTES)
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
            rows.ask_row(i, rows.groups * 32 / F::LEN * F::BYTES);
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

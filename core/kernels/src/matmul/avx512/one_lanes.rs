//! What sixteen rows leave of a panel, and its sums with the rows in lanes.

use std::arch::x86_64::*;
use std::marker::PhantomData;

use super::one::{Row, load};
use crate::blocks::Format;
use crate::isa::avx512;

/// Where row `lane` of sixteen lies among four vectors of four: so that [`reduce`] leaves it in its lane.
const fn slot(lane: usize) -> usize {
    lane % 4 * 4 + lane / 4
}

avx512! {
/// The sums of the four numbers of each row; `rows` are sixteen times four, row `i` at `slot(i)`.
///
/// # Safety
/// 256 readable bytes.
#[inline]
unsafe fn reduce(rows: *const i32) -> __m512i {
    // SAFETY: the promise of the caller.
    let z: [__m512i; 4] = [0, 1, 2, 3].map(|i| unsafe { load(rows.add(16 * i)) });
    merge(z)
}
}

avx512! {
/// In 128-bit lane `l`: the sums of the four numbers there of each of the vectors.
#[inline]
pub(super) fn merge(z: [__m512i; 4]) -> __m512i {
    let pair = |a, b| _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
    let (a, b) = (pair(z[0], z[1]), pair(z[2], z[3]));
    _mm512_add_epi32(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b))
}
}

/// What sixteen rows leave of a panel.
///
/// # Safety
/// All bits are valid, and it is aligned to no more than 64 bytes.
pub(super) unsafe trait Parts {
    /// Adds it to the sums of the rows.
    ///
    /// # Safety
    /// The processor has AVX-512; every lane was left; `x` is the panel.
    unsafe fn add(&self, x: &Row, sums: __m512) -> __m512;
}

/// What rows of a wide format, with minima or without, leave of a panel: whole numbers, in four parts each, and their factors.
#[repr(C, align(64))]
pub(super) struct WideParts<const MIN: bool> {
    products: [[i32; 4]; 16],
    minima: [[i32; 4]; 16],
    d: [f32; 16],
    dmin: [f32; 16],
}

impl<const MIN: bool> WideParts<MIN> {
    avx512! {
    /// Leaves the products of a row, sixteen parts of them, and their factor.
    #[inline]
    pub(super) fn leave(&mut self, lane: usize, products: __m512i, d: f32) {
        let half = _mm256_add_epi32(_mm512_castsi512_si256(products), _mm512_extracti64x4_epi64::<1>(products));
        let four = _mm_add_epi32(_mm256_castsi256_si128(half), _mm256_extracti128_si256::<1>(half));
        // SAFETY: four numbers.
        unsafe { _mm_storeu_si128(self.products[slot(lane)].as_mut_ptr().cast(), four) };
        self.d[lane] = d;
    }
    }

    avx512! {
    /// Leaves the minima of a row, four parts of them, and their factor.
    #[inline]
    pub(super) fn leave_minima(&mut self, lane: usize, minima: __m128i, dmin: f32) {
        // SAFETY: four numbers.
        unsafe { _mm_storeu_si128(self.minima[slot(lane)].as_mut_ptr().cast(), minima) };
        self.dmin[lane] = dmin;
    }
    }
}

// SAFETY: numbers, aligned to 64.
unsafe impl<const MIN: bool> Parts for WideParts<MIN> {
    avx512! {
    /// Adds the products, less the minima.
    #[inline]
    unsafe fn add(&self, x: &Row, sums: __m512) -> __m512 {
        // SAFETY: sixteen times four numbers, sixteen factors; the caller's panel.
        unsafe {
            let dx = _mm512_set1_ps((*x.meta).d[0]);
            let d = _mm512_mul_ps(_mm512_loadu_ps(self.d.as_ptr()), dx);
            let products = _mm512_cvtepi32_ps(reduce(self.products.as_ptr().cast()));
            let sums = _mm512_fmadd_ps(products, d, sums);
            if !MIN {
                return sums;
            }
            let dmin = _mm512_mul_ps(_mm512_loadu_ps(self.dmin.as_ptr()), dx);
            let minima = _mm512_cvtepi32_ps(reduce(self.minima.as_ptr().cast()));
            _mm512_fnmadd_ps(minima, dmin, sums)
        }
    }
    }
}

/// A format with blocks of 32.
pub(super) trait Narrow: Format {
    /// As unsigned bytes the values are too large by `2^(7 - SHIFT)`; of no matter to formats with minima.
    const SHIFT: u32;

    avx512! {
    /// The scales that sixteen words stand for.
    ///
    /// # Safety
    /// The processor has AVX-512.
    #[inline]
    unsafe fn scales(words: __m256i) -> __m512 {
        _mm512_cvtph_ps(words)
    }
    }
}

/// What rows of a format with blocks of 32 leave of a panel.
#[repr(C, align(64))]
pub(super) struct NarrowParts<F> {
    /// In quarter `l` of a row: two parts of the product of group `l`, then two of group `l + 4`.
    products: [[i32; 16]; 16],
    /// The scales of the groups of a row as they are in the blocks, row `i` at `slot(i)`.
    scales: [[u16; 8]; 16],
    /// The minima, f16.
    minima: [[u16; 8]; 16],
    format: PhantomData<F>,
}

impl<F: Narrow> NarrowParts<F> {
    avx512! {
    /// Leaves the products of a row: four parts of each of the groups 0 to 3, and of 4 to 7.
    #[inline]
    pub(super) fn leave(&mut self, lane: usize, low: __m512i, high: __m512i) {
        let two = _mm512_add_epi32(_mm512_unpacklo_epi64(low, high), _mm512_unpackhi_epi64(low, high));
        // SAFETY: sixteen numbers.
        unsafe { _mm512_storeu_si512(self.products[lane].as_mut_ptr().cast(), two) };
    }
    }

    avx512! {
    /// Leaves the scales of a row and, for formats that have them, its minima.
    #[inline]
    pub(super) fn leave_words(&mut self, lane: usize, scales: __m128i, minima: Option<__m128i>) {
        // SAFETY: eight words each.
        unsafe {
            _mm_storeu_si128(self.scales[slot(lane)].as_mut_ptr().cast(), scales);
            if let Some(minima) = minima {
                _mm_storeu_si128(self.minima[slot(lane)].as_mut_ptr().cast(), minima);
            }
        }
    }
    }
}

avx512! {
/// The words of all rows, two neighbouring groups to a dword, rows in lanes.
#[inline]
fn two_groups(words: &[[u16; 8]; 16]) -> [__m512i; 4] {
    // SAFETY: 64 bytes each.
    let z = [0, 1, 2, 3].map(|i| unsafe { load(words[4 * i].as_ptr()) });
    let low = [_mm512_unpacklo_epi32(z[0], z[1]), _mm512_unpacklo_epi32(z[2], z[3])];
    let high = [_mm512_unpackhi_epi32(z[0], z[1]), _mm512_unpackhi_epi32(z[2], z[3])];
    [
        _mm512_unpacklo_epi64(low[0], low[1]),
        _mm512_unpackhi_epi64(low[0], low[1]),
        _mm512_unpacklo_epi64(high[0], high[1]),
        _mm512_unpackhi_epi64(high[0], high[1]),
    ]
}
}

avx512! {
/// The words of group `g`.
#[inline]
fn words(pairs: [__m512i; 4], g: usize) -> __m256i {
    let pair = pairs[g / 2];
    _mm512_cvtepi32_epi16(if g.is_multiple_of(2) { pair } else { _mm512_srli_epi32::<16>(pair) })
}
}

avx512! {
/// Four vectors with a row each in their quarters, as `NarrowParts` has them: the sums of the groups 0 to 3, in a quarter
/// the four rows, and of 4 to 7.
#[inline]
fn four_rows(z: [__m512i; 4]) -> [__m512i; 2] {
    let sum = |a, b| {
        let (a, b) = (_mm512_castsi512_ps(a), _mm512_castsi512_ps(b));
        let (even, odd) = (_mm512_shuffle_ps::<0x88>(a, b), _mm512_shuffle_ps::<0xdd>(a, b));
        _mm512_add_epi32(_mm512_castps_si512(even), _mm512_castps_si512(odd))
    };
    [
        sum(_mm512_unpacklo_epi64(z[0], z[1]), _mm512_unpacklo_epi64(z[2], z[3])),
        sum(_mm512_unpackhi_epi64(z[0], z[1]), _mm512_unpackhi_epi64(z[2], z[3])),
    ]
}
}

avx512! {
/// Quarter `l` of the four vectors, in order, as vector `l`.
#[inline]
pub(super) fn quarters(q: [__m512i; 4]) -> [__m512i; 4] {
    let (a, b) = (_mm512_shuffle_i32x4::<0x44>(q[0], q[1]), _mm512_shuffle_i32x4::<0xee>(q[0], q[1]));
    let (c, d) = (_mm512_shuffle_i32x4::<0x44>(q[2], q[3]), _mm512_shuffle_i32x4::<0xee>(q[2], q[3]));
    [
        _mm512_shuffle_i32x4::<0x88>(a, c),
        _mm512_shuffle_i32x4::<0xdd>(a, c),
        _mm512_shuffle_i32x4::<0x88>(b, d),
        _mm512_shuffle_i32x4::<0xdd>(b, d),
    ]
}
}

// SAFETY: numbers, aligned to 64.
unsafe impl<F: Narrow> Parts for NarrowParts<F> {
    avx512! {
    /// Adds the products of the panel's groups, in order.
    #[inline]
    unsafe fn add(&self, x: &Row, sums: __m512) -> __m512 {
        let mut halves = [[_mm512_setzero_si512(); 4]; 2];
        let [low, high] = &mut halves;
        for (k, (low, high)) in low.iter_mut().zip(high).enumerate() {
            // SAFETY: sixteen numbers each.
            let rows = [0, 1, 2, 3].map(|i| unsafe { load(self.products[4 * k + i].as_ptr()) });
            [*low, *high] = four_rows(rows);
        }
        let [low, high] = halves.map(|q| quarters(q));
        // SAFETY: the caller's panel.
        let meta = unsafe { &*x.meta };
        let shift = _mm_cvtsi32_si128(F::SHIFT as i32);
        let scales = two_groups(&self.scales);
        let minima = if F::MIN { two_groups(&self.minima) } else { scales };
        let mut total = _mm512_setzero_ps();
        for (g, product) in low.into_iter().chain(high).enumerate().take(x.groups) {
            // SAFETY: this function's own features.
            let scale = unsafe { F::scales(words(scales, g)) };
            let scale = _mm512_mul_ps(scale, _mm512_set1_ps(meta.d[g]));
            let product = if F::MIN {
                product
            } else {
                _mm512_add_epi32(product, _mm512_sra_epi32(_mm512_set1_epi32(meta.neg32[g]), shift))
            };
            total = _mm512_fmadd_ps(_mm512_cvtepi32_ps(product), scale, total);
            if F::MIN {
                let minimum = _mm512_cvtph_ps(words(minima, g));
                total = _mm512_fmadd_ps(minimum, _mm512_set1_ps(meta.dsum[g]), total);
            }
        }
        _mm512_add_ps(sums, total)
    }
    }
}

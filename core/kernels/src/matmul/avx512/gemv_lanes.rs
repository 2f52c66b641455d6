//! The partial results of rows of a format with blocks of 32 for panels, and their sums with rows and panels in lanes.

use std::arch::x86_64::*;
use std::marker::PhantomData;

use super::gemv::{GemvFormat, RowSums, load};
use super::gemv_batches::{self, LaneFactors};
use crate::activations::LaneScales;
use crate::blocks::Format;
use crate::isa::avx512;
use crate::matmul::types::{Int8Activations, MatmulJob};

/// The place of the words of `lane` among four vectors of four, from which [`two_groups`] puts them in their lane.
const fn slot(lane: usize) -> usize {
    lane % 4 * 4 + lane / 4
}

/// The partial results of sixteen rows and panels.
///
/// # Safety
/// All bits are valid.
pub(super) unsafe trait LaneParts: Sized {
    /// The sum of each lane's panel.
    ///
    /// # Safety
    /// The processor has AVX-512; `x` belongs to the panels and has what `RowSums::SPREADS` says.
    unsafe fn add(&self, x: &LaneFactors) -> __m512;
}

/// A format with blocks of 32.
pub(super) trait NarrowFormat: Format {
    /// The excess of values stored as unsigned bytes is `2^(7 - SHIFT)`; not used by formats with minima.
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

/// The partial results of rows of a format with blocks of 32 for panels, one per lane.
#[repr(C, align(64))]
pub(super) struct NarrowParts<F> {
    /// In quarter `l` of a row: two parts of the product of group `l`, then two of group `l + 4`.
    products: [[i32; 16]; 16],
    /// The scales of the groups of a row as stored in the blocks, row `i` at `slot(i)`.
    scales: [[u16; 8]; 16],
    /// The minima, f16.
    minima: [[u16; 8]; 16],
    format: PhantomData<F>,
}

impl<F: NarrowFormat> NarrowParts<F> {
    avx512! {
    /// Stores the products of a row: four parts of each of the groups 0 to 3, and of 4 to 7.
    #[inline]
    pub(super) fn leave(&mut self, lane: usize, low: __m512i, high: __m512i) {
        let two = _mm512_add_epi32(_mm512_unpacklo_epi64(low, high), _mm512_unpackhi_epi64(low, high));
        // SAFETY: sixteen numbers.
        unsafe { _mm512_storeu_si512(self.products[lane].as_mut_ptr().cast(), two) };
    }
    }

    avx512! {
    /// Stores the scales of a row and, for formats that have them, its minima.
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
/// The words of all rows, two neighboring groups to a dword, rows in lanes.
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
/// Four vectors with a row in each quarter, as in `NarrowParts`: the sums of the groups 0 to 3, with the four rows in a
/// quarter, and of 4 to 7.
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
unsafe impl<F: NarrowFormat> LaneParts for NarrowParts<F> {
    avx512! {
    /// The products of the panels' groups, added in order.
    #[inline]
    unsafe fn add(&self, x: &LaneFactors) -> __m512 {
        let mut halves = [[_mm512_setzero_si512(); 4]; 2];
        let [low, high] = &mut halves;
        for (k, (low, high)) in low.iter_mut().zip(high).enumerate() {
            // SAFETY: sixteen numbers each.
            let places = [0, 1, 2, 3].map(|i| unsafe { load(self.products[4 * k + i].as_ptr()) });
            [*low, *high] = four_rows(places);
        }
        let [[a, b, c, d], [e, f, g, h]] = halves.map(|q| quarters(q));
        let products = [a, b, c, d, e, f, g, h];
        let shift = _mm_cvtsi32_si128(F::SHIFT as i32);
        let scales = two_groups(&self.scales);
        let minima = if F::MIN { two_groups(&self.minima) } else { scales };
        let mut total = _mm512_setzero_ps();
        for (g, product) in products.into_iter().enumerate() {
            // SAFETY: this function's own features; eight groups of what `SPREADS` says.
            unsafe {
                let lanes = x.lanes(g);
                let d = _mm512_castsi512_ps(x.vector(LaneScales::Scales, g));
                let scale = _mm512_mul_ps(F::scales(words(scales, g)), d);
                let product = if F::MIN {
                    product
                } else {
                    _mm512_add_epi32(product, _mm512_sra_epi32(x.vector(LaneScales::Less32, g), shift))
                };
                total = _mm512_mask3_fmadd_ps(_mm512_cvtepi32_ps(product), scale, total, lanes);
                if F::MIN {
                    let minimum = _mm512_cvtph_ps(words(minima, g));
                    let sum = _mm512_castsi512_ps(x.vector(LaneScales::Sums, g));
                    total = _mm512_mask3_fmadd_ps(minimum, sum, total, lanes);
                }
            }
        }
        total
    }
    }
}

impl<F: NarrowFormat> RowSums for NarrowParts<F> {
    const SPREADS: &'static [LaneScales] = if F::MIN {
        &[LaneScales::Scales, LaneScales::Sums]
    } else {
        &[LaneScales::Scales, LaneScales::Less32]
    };

    #[inline(always)]
    unsafe fn run<D: GemvFormat<Parts = Self>>(job: &mut MatmulJob<'_, Int8Activations>) {
        // SAFETY: the promise of the caller.
        unsafe { gemv_batches::run::<D>(job) }
    }
}

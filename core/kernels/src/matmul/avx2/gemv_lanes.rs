//! The partial results of eight rows of weights for a panel, and their sums with these rows in lanes.

use std::arch::x86_64::*;
use std::marker::PhantomData;

use super::gemv::{ActivationPanel, load};
use super::transpose::transpose8;
use crate::isa::avx2;

/// The place of row `lane` of eight among four vectors of two, from which [`reduce`] puts it in its lane.
const fn slot(lane: usize) -> usize {
    lane % 4 * 2 + lane / 4
}

avx2! {
/// In each 128 bits: the sums of the four numbers there of each of the vectors.
#[inline]
pub(super) fn merge(z: [__m256i; 4]) -> __m256i {
    _mm256_hadd_epi32(_mm256_hadd_epi32(z[0], z[1]), _mm256_hadd_epi32(z[2], z[3]))
}
}

avx2! {
/// The sums of the four numbers of each row; `rows` are eight times four, row `i` at `slot(i)`.
#[inline]
fn reduce(rows: &[[i32; 4]; 8]) -> __m256i {
    let from = rows.as_ptr().cast::<i32>();
    // SAFETY: four times eight numbers.
    merge([0, 1, 2, 3].map(|i| unsafe { load(from.add(8 * i)) }))
}
}

/// The partial results of eight rows of weights for a panel of a row of activations.
///
/// # Safety
/// All bits are valid, its alignment is at most 64 bytes, and its size a multiple of 32.
pub(super) unsafe trait PanelSums: Sized {
    /// Adds the results for each row of activations to its sums. What belongs to the weights alone is in the first.
    ///
    /// # Safety
    /// The processor has AVX2, FMA and F16C; `x` are the panels.
    unsafe fn add<const T: usize>(parts: &[Self; T], x: &[ActivationPanel; T], sums: &mut [__m256; T]);
}

/// The partial results of rows of a wide format, with minima or without, for a panel: integers, in four parts each, and
/// their factors.
#[repr(C, align(32))]
pub(super) struct WidePanelSums<const MIN: bool> {
    products: [[i32; 4]; 8],
    minima: [[i32; 4]; 8],
    d: [f32; 8],
    dmin: [f32; 8],
}

impl<const MIN: bool> WidePanelSums<MIN> {
    avx2! {
    /// Stores the products of a row of weights with each row of activations, in eight parts, and their factor.
    #[inline]
    pub(super) fn leave<const T: usize>(parts: &mut [Self; T], lane: usize, products: [__m256i; T], d: f32) {
        for (part, products) in parts.iter_mut().zip(products) {
            let four = _mm_add_epi32(_mm256_castsi256_si128(products), _mm256_extracti128_si256::<1>(products));
            // SAFETY: four numbers.
            unsafe { _mm_storeu_si128(part.products[slot(lane)].as_mut_ptr().cast(), four) };
        }
        parts[0].d[lane] = d;
    }
    }

    avx2! {
    /// Stores the minima of a row of weights for each row of activations, in four parts, and their factor.
    #[inline]
    pub(super) fn leave_minima<const T: usize>(parts: &mut [Self; T], lane: usize, minima: [__m128i; T], dmin: f32) {
        for (part, minima) in parts.iter_mut().zip(minima) {
            // SAFETY: four numbers.
            unsafe { _mm_storeu_si128(part.minima[slot(lane)].as_mut_ptr().cast(), minima) };
        }
        parts[0].dmin[lane] = dmin;
    }
    }
}

// SAFETY: numbers, aligned to 32.
unsafe impl<const MIN: bool> PanelSums for WidePanelSums<MIN> {
    avx2! {
    /// Adds the products, less the minima.
    #[inline]
    unsafe fn add<const T: usize>(parts: &[Self; T], x: &[ActivationPanel; T], sums: &mut [__m256; T]) {
        let first = &parts[0];
        // SAFETY: eight factors.
        let (d, dmin) = unsafe { (_mm256_loadu_ps(first.d.as_ptr()), _mm256_loadu_ps(first.dmin.as_ptr())) };
        for ((part, x), sum) in parts.iter().zip(x).zip(sums) {
            // SAFETY: the caller's panels.
            let dx = _mm256_set1_ps(unsafe { (*x.meta).d[0] });
            *sum = _mm256_fmadd_ps(_mm256_cvtepi32_ps(reduce(&part.products)), _mm256_mul_ps(d, dx), *sum);
            if MIN {
                let minima = _mm256_cvtepi32_ps(reduce(&part.minima));
                *sum = _mm256_fnmadd_ps(minima, _mm256_mul_ps(dmin, dx), *sum);
            }
        }
    }
    }
}

/// How a narrow format stores the scales of its groups.
pub(super) trait ScaleFormat {
    /// The scales of eight rows with these bits.
    ///
    /// # Safety
    /// The processor has AVX2 and F16C.
    unsafe fn floats(bits: __m128i) -> __m256;
}

/// Numbers in f16.
pub(super) struct HalfScales;
/// Halves of powers of two (MXFP4's e8m0).
pub(super) struct Powers;
/// Halves of unsigned e4m3 numbers.
pub(super) struct SmallFloats;

impl ScaleFormat for HalfScales {
    avx2! {
    #[inline]
    unsafe fn floats(bits: __m128i) -> __m256 {
        _mm256_cvtph_ps(bits)
    }
    }
}

impl ScaleFormat for Powers {
    avx2! {
    #[inline]
    unsafe fn floats(bits: __m128i) -> __m256 {
        // The second byte belongs to the values.
        let (e, one) = (_mm256_and_si256(_mm256_cvtepu16_epi32(bits), _mm256_set1_epi32(255)), _mm256_set1_epi32(1));
        let normal = _mm256_slli_epi32::<23>(_mm256_sub_epi32(e, one));
        let subnormal = _mm256_sllv_epi32(_mm256_set1_epi32(0x0020_0000), e);
        _mm256_castsi256_ps(_mm256_blendv_epi8(subnormal, normal, _mm256_cmpgt_epi32(e, one)))
    }
    }
}

impl ScaleFormat for SmallFloats {
    avx2! {
    #[inline]
    unsafe fn floats(bits: __m128i) -> __m256 {
        let v = _mm256_and_si256(_mm256_cvtepu16_epi32(bits), _mm256_set1_epi32(0x7f));
        let normal = _mm256_add_epi32(_mm256_slli_epi32::<20>(v), _mm256_set1_epi32((127 - 8) << 23));
        let small = _mm256_mul_ps(_mm256_cvtepi32_ps(v), _mm256_set1_ps(f32::from_bits((127 - 10) << 23)));
        let is_small = _mm256_cmpgt_epi32(_mm256_set1_epi32(8), v);
        let scale = _mm256_blendv_epi8(normal, _mm256_castps_si256(small), is_small);
        // NaN stands for zero.
        let none = _mm256_cmpeq_epi32(v, _mm256_set1_epi32(0x7f));
        _mm256_castsi256_ps(_mm256_andnot_si256(none, scale))
    }
    }
}

/// The partial results of rows of a narrow format for a panel's `G` groups: their products, and the bits of their
/// scales and minima with the rows adjacent.
#[repr(C, align(32))]
pub(super) struct NarrowPanelSums<S: ScaleFormat, const G: usize, const MIN: bool> {
    pub(super) products: [[f32; G]; 8],
    pub(super) scale: [[u16; 8]; G],
    pub(super) min: [[u16; 8]; 8],
    kind: PhantomData<S>,
}

avx2! {
/// The eight columns from `at` on of eight rows that are `stride` floats apart, rows in lanes.
///
/// # Safety
/// Eight readable floats in every row.
#[inline]
unsafe fn columns(at: *const f32, stride: usize) -> [__m256; 8] {
    // SAFETY: the promise of the caller.
    let rows = [0, 1, 2, 3, 4, 5, 6, 7].map(|i| unsafe { load(at.add(i * stride)) });
    transpose8(rows).map(|v| _mm256_castsi256_ps(v))
}
}

// SAFETY: numbers, aligned to 32.
unsafe impl<S: ScaleFormat, const G: usize, const MIN: bool> PanelSums for NarrowPanelSums<S, G, MIN> {
    avx2! {
    /// Adds the products of the panel's groups, in order.
    #[inline]
    unsafe fn add<const T: usize>(parts: &[Self; T], x: &[ActivationPanel; T], sums: &mut [__m256; T]) {
        let groups = x[0].groups * G / 8;
        let mut totals = [_mm256_setzero_ps(); T];
        for first in (0..groups).step_by(8) {
            for ((part, x), total) in parts.iter().zip(x).zip(&mut totals) {
                // SAFETY: eight columns of the products from `first` on; the caller's panels.
                let (products, meta) =
                    unsafe { (columns(part.products.as_ptr().cast::<f32>().add(first), G), &*x.meta) };
                for (i, product) in products.into_iter().enumerate().take(groups - first) {
                    let (group, of) = (first + i, (first + i) * 8 / G);
                    // SAFETY: eight scales and minima.
                    unsafe {
                        let scale = S::floats(_mm_loadu_si128(parts[0].scale[group].as_ptr().cast()));
                        let scale = _mm256_mul_ps(scale, _mm256_set1_ps(meta.d[of]));
                        *total = _mm256_fmadd_ps(product, scale, *total);
                        if MIN {
                            let min = HalfScales::floats(_mm_loadu_si128(parts[0].min[of].as_ptr().cast()));
                            *total = _mm256_fmadd_ps(min, _mm256_set1_ps(meta.dsum[of]), *total);
                        }
                    }
                }
            }
        }
        for (sum, total) in sums.iter_mut().zip(totals) {
            *sum = _mm256_add_ps(*sum, total);
        }
    }
    }
}

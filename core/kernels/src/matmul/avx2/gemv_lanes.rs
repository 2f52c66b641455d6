//! The partial results of eight rows for a panel, and their sums with the rows in lanes.

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

/// The partial results of eight rows for a panel.
///
/// # Safety
/// All bits are valid, and its alignment is at most 64 bytes.
pub(super) unsafe trait PanelSums {
    /// Adds it to the sums of the rows.
    ///
    /// # Safety
    /// The processor has AVX2, FMA and F16C; `x` is the panel.
    unsafe fn add(&self, x: &ActivationPanel, sums: __m256) -> __m256;
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
    /// Stores the products of a row, in eight parts, and their factor.
    #[inline]
    pub(super) fn leave(&mut self, lane: usize, products: __m256i, d: f32) {
        let four = _mm_add_epi32(_mm256_castsi256_si128(products), _mm256_extracti128_si256::<1>(products));
        // SAFETY: four numbers.
        unsafe { _mm_storeu_si128(self.products[slot(lane)].as_mut_ptr().cast(), four) };
        self.d[lane] = d;
    }
    }

    avx2! {
    /// Stores the minima of a row, in four parts, and their factor.
    #[inline]
    pub(super) fn leave_minima(&mut self, lane: usize, minima: __m128i, dmin: f32) {
        // SAFETY: four numbers.
        unsafe { _mm_storeu_si128(self.minima[slot(lane)].as_mut_ptr().cast(), minima) };
        self.dmin[lane] = dmin;
    }
    }
}

// SAFETY: numbers, aligned to 32.
unsafe impl<const MIN: bool> PanelSums for WidePanelSums<MIN> {
    avx2! {
    /// Adds the products, less the minima.
    #[inline]
    unsafe fn add(&self, x: &ActivationPanel, sums: __m256) -> __m256 {
        // SAFETY: eight factors; the caller's panel.
        unsafe {
            let dx = _mm256_set1_ps((*x.meta).d[0]);
            let d = _mm256_mul_ps(_mm256_loadu_ps(self.d.as_ptr()), dx);
            let sums = _mm256_fmadd_ps(_mm256_cvtepi32_ps(reduce(&self.products)), d, sums);
            if !MIN {
                return sums;
            }
            let dmin = _mm256_mul_ps(_mm256_loadu_ps(self.dmin.as_ptr()), dx);
            _mm256_fnmadd_ps(_mm256_cvtepi32_ps(reduce(&self.minima)), dmin, sums)
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
    unsafe fn add(&self, x: &ActivationPanel, sums: __m256) -> __m256 {
        let groups = x.groups * G / 8;
        let mut total = _mm256_setzero_ps();
        for first in (0..groups).step_by(8) {
            // SAFETY: eight columns of the products from `first` on; eight scales and minima; the caller's panel.
            unsafe {
                let products = columns(self.products.as_ptr().cast::<f32>().add(first), G);
                for (i, product) in products.into_iter().enumerate().take(groups - first) {
                    let (group, part) = (first + i, (first + i) * 8 / G);
                    let scale = S::floats(_mm_loadu_si128(self.scale[group].as_ptr().cast()));
                    let scale = _mm256_mul_ps(scale, _mm256_set1_ps((*x.meta).d[part]));
                    total = _mm256_fmadd_ps(product, scale, total);
                    if MIN {
                        let min = HalfScales::floats(_mm_loadu_si128(self.min[part].as_ptr().cast()));
                        total = _mm256_fmadd_ps(min, _mm256_set1_ps((*x.meta).dsum[part]), total);
                    }
                }
            }
        }
        _mm256_add_ps(sums, total)
    }
    }
}

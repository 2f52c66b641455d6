//! One row of activations for formats with integer sums: a panel of a row gives one integer, and two panels of two rows
//! are reduced at once.

use std::arch::x86_64::*;

use super::gemv::{ActivationPanels, GemvFormat, RowSums, row_of};
use crate::blocks::{Format, SUPER};
use crate::isa::avx512;
use crate::matmul::prefetch::prefetch;
use crate::matmul::types::{Int8Activations, MatmulJob};

/// The partial results of two rows of a wide format for two panels: integers in parts, and their factors. The rows are
/// the places 0 and 1 for the first panel, 2 and 3 for the second.
pub(super) struct WideParts {
    products: [__m512i; 4],
    d: [f32; 4],
}

impl WideParts {
    avx512! {
    /// Stores the products of a panel, in sixteen parts, and their factor.
    #[inline]
    pub(super) fn leave(&mut self, lane: usize, products: __m512i, d: f32) {
        (self.products[lane], self.d[lane]) = (products, d);
    }
    }
}

/// The partial results of two rows of a wide format with minima for two panels, as in [`WideParts`].
pub(super) struct WideMinParts {
    products: [__m512i; 4],
    minima: [__m128i; 4],
    words: [i32; 4],
}

impl WideMinParts {
    avx512! {
    /// Stores the products of a panel in sixteen parts, its minima in four parts, and the factors of both as f16; those
    /// of the minima are above.
    #[inline]
    pub(super) fn leave(&mut self, lane: usize, products: __m512i, minima: __m128i, factors: i32) {
        (self.products[lane], self.minima[lane], self.words[lane]) = (products, minima, factors);
    }
    }
}

/// The partial results of two rows for two panels.
pub(super) trait PanelParts: Sized {
    /// Nothing left.
    ///
    /// # Safety
    /// The processor has AVX-512.
    unsafe fn zero() -> Self;

    /// Adds the first panel and, if `both`, the second to the sums of the two rows in the lower lanes; `dx` are the
    /// scales of the activations: twice those of the first panel, then those of the second.
    ///
    /// # Safety
    /// The processor has AVX-512.
    unsafe fn add(&self, both: bool, dx: __m128, sums: __m128) -> __m128;
}

impl PanelParts for WideParts {
    avx512! {
    #[inline]
    unsafe fn zero() -> Self {
        WideParts { products: [_mm512_setzero_si512(); 4], d: [0.0; 4] }
    }
    }

    avx512! {
    #[inline]
    unsafe fn add(&self, both: bool, dx: __m128, sums: __m128) -> __m128 {
        let products = _mm_cvtepi32_ps(four_sums(self.products));
        let d = _mm_mul_ps(_mm_setr_ps(self.d[0], self.d[1], self.d[2], self.d[3]), dx);
        let sums = _mm_fmadd_ps(products, d, sums);
        if !both {
            return sums;
        }
        _mm_fmadd_ps(upper(products), upper(d), sums)
    }
    }
}

impl PanelParts for WideMinParts {
    avx512! {
    #[inline]
    unsafe fn zero() -> Self {
        WideMinParts { products: [_mm512_setzero_si512(); 4], minima: [_mm_setzero_si128(); 4], words: [0; 4] }
    }
    }

    avx512! {
    #[inline]
    unsafe fn add(&self, both: bool, dx: __m128, sums: __m128) -> __m128 {
        let products = _mm_cvtepi32_ps(four_sums(self.products));
        let minima = _mm_cvtepi32_ps(four_short_sums(self.minima));
        let words = _mm_setr_epi32(self.words[0], self.words[1], self.words[2], self.words[3]);
        // Those of the products in the lower half, then those of the minima.
        let order = _mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15);
        let factors = _mm256_cvtph_ps(_mm_shuffle_epi8(words, order));
        let d = _mm_mul_ps(_mm256_castps256_ps128(factors), dx);
        let dmin = _mm_mul_ps(_mm256_extractf128_ps::<1>(factors), dx);
        let sums = _mm_fnmadd_ps(minima, dmin, _mm_fmadd_ps(products, d, sums));
        if !both {
            return sums;
        }
        _mm_fnmadd_ps(upper(minima), upper(dmin), _mm_fmadd_ps(upper(products), upper(d), sums))
    }
    }
}

avx512! {
/// `total` plus the products of 16-bit numbers, two per lane. In assembly: the compiler splits the instruction, which
/// costs a tenth of the rate (Q4_K on Zen 4).
#[inline]
pub(super) fn add_products(total: __m512i, a: __m512i, b: __m512i) -> __m512i {
    let mut total = total;
    // SAFETY: registers alone; the instruction belongs to the features of the function.
    unsafe {
        std::arch::asm!(
            "vpdpwssd {total}, {a}, {b}",
            total = inout(zmm_reg) total,
            a = in(zmm_reg) a,
            b = in(zmm_reg) b,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    total
}
}

avx512! {
#[inline]
fn upper(v: __m128) -> __m128 {
    _mm_movehl_ps(v, v)
}
}

avx512! {
/// The sums of the sixteen numbers of each vector.
#[inline]
fn four_sums(z: [__m512i; 4]) -> __m128i {
    let z = z.map(|z| _mm256_add_epi32(_mm512_castsi512_si256(z), _mm512_extracti64x4_epi64::<1>(z)));
    let pair = |a, b| _mm256_add_epi32(_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
    let (a, b) = (pair(z[0], z[1]), pair(z[2], z[3]));
    let half = _mm256_add_epi32(_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b));
    _mm_add_epi32(_mm256_castsi256_si128(half), _mm256_extracti128_si256::<1>(half))
}
}

avx512! {
/// The sums of the four numbers of each vector.
#[inline]
fn four_short_sums(z: [__m128i; 4]) -> __m128i {
    let pair = |a, b| _mm_add_epi32(_mm_unpacklo_epi32(a, b), _mm_unpackhi_epi32(a, b));
    let (a, b) = (pair(z[0], z[1]), pair(z[2], z[3]));
    _mm_add_epi32(_mm_unpacklo_epi64(a, b), _mm_unpackhi_epi64(a, b))
}
}

impl<P: PanelParts> RowSums for P {
    #[inline(always)]
    unsafe fn run<D: GemvFormat<Parts = P>>(job: &mut MatmulJob<'_, Int8Activations>) {
        let x = row_of(job.x, D::ORDER);
        // SAFETY: the promise of the caller.
        let constants = unsafe { D::constants() };
        for at in pairs(job.w.rows()) {
            // SAFETY: both rows have whole blocks for all columns (`Matrix::new`), `x` as many columns (checked by
            // `matmul`), padded to whole panels.
            let dots = unsafe { two_rows::<D>(at.map(|row| job.w.row(row).as_ptr()), &x, &constants) };
            store(job, at, dots);
        }
    }
}

/// The rows of weights that are read in turn, half of the rows apart.
#[inline(always)]
pub(super) fn pairs(rows: usize) -> impl Iterator<Item = [usize; 2]> {
    let far = rows.div_ceil(2);
    (0..far).map(move |first| [first, (first + far).min(rows - 1)])
}

/// Stores the products of two rows of weights.
#[inline(always)]
pub(super) fn store(job: &mut MatmulJob<'_, Int8Activations>, rows: [usize; 2], dots: [f32; 2]) {
    for token in 0..job.tokens.len() {
        for (row, dot) in rows.iter().zip(&dots) {
            job.out.store(token, *row, std::slice::from_ref(dot));
        }
    }
}

/// The products of two rows of weights with the activations.
///
/// # Safety
/// The features of the format are there; both rows have `x.groups` groups of 32 columns, and so has `x`.
#[inline(always)]
unsafe fn two_rows<D: GemvFormat<Parts: PanelParts>>(
    rows: [*const u8; 2],
    x: &ActivationPanels,
    constants: &D::Constants,
) -> [f32; 2] {
    let (panel_bytes, panels) = (SUPER / D::Blocks::LEN * D::Blocks::BYTES, x.groups.div_ceil(8));
    // SAFETY: the promise of the caller; the second panel of the last pair may be the first again, and is not added then.
    unsafe {
        let (mut sums, mut parts) = (_mm_setzero_ps(), D::Parts::zero());
        for start in (0..panels).step_by(2) {
            let both = start + 1 < panels;
            let at = [start, start + usize::from(both)];
            let [first, second] = at.map(|panel| x.panel(panel));
            let mut leave = |row: *const u8, panel: usize, x: &ActivationPanels, lane| {
                let blocks = row.add(panel * panel_bytes);
                prefetch(blocks, panel_bytes);
                D::panel(blocks, x, constants, &mut parts, lane);
            };
            leave(rows[0], at[0], &first, 0);
            leave(rows[1], at[0], &first, 1);
            leave(rows[0], at[1], &second, 2);
            leave(rows[1], at[1], &second, 3);
            let dx = [(*first.meta).d[0], (*second.meta).d[0]];
            sums = parts.add(both, _mm_setr_ps(dx[0], dx[0], dx[1], dx[1]), sums);
        }
        let mut dots = [0f32; 4];
        _mm_storeu_ps(dots.as_mut_ptr(), sums);
        [dots[0], dots[1]]
    }
}

//! One row of activations on float weights in place: two rows of weights at a time, half of the task's rows apart (see
//! `gemv`), eight sums of each in a vector. The order of the sums: `order`.

use std::arch::x86_64::*;

use super::tile_narrow::store_floats;
use crate::isa::avx512;
use crate::matmul::order::{FloatInput, SUMS};
use crate::matmul::prefetch::prefetch;
use crate::matmul::types::MatmulJob;

/// Panels whose sums wait until they are added together.
const WAITING: usize = 8;
/// The most bytes of a step in each row.
const STEP_BYTES: usize = 32;

/// Products of two rows of weights with one of activations.
///
/// # Safety
/// All bits are valid values; a step of eight times `FloatInput::WIDTH` columns has at most 32 bytes.
pub(super) unsafe trait RowPairProduct {
    /// The activations.
    type Input: FloatInput;
    /// Bytes per weight.
    const BYTES: usize;

    /// Adds the products of `steps` steps to the sums: those of the first row in the lower half, the second's above.
    ///
    /// # Safety
    /// The processor has the instructions; so many weights and activations are readable.
    unsafe fn add(
        rows: [*const u8; 2],
        x: *const <Self::Input as FloatInput>::Value,
        steps: usize,
        sums: __m512,
    ) -> __m512;
}

/// Computes a job.
///
/// # Safety
/// The processor has the instructions of `P`, whose weights these are.
#[inline(always)]
pub(super) unsafe fn row_pairs<P: RowPairProduct>(job: &mut MatmulJob<'_, <P::Input as FloatInput>::Form>) {
    let (w, tokens) = (job.w, job.tokens.len());
    let (rows, x) = (w.rows(), &P::Input::row(job.x, job.tokens.row(0))[..w.cols()]);
    let far = rows.div_ceil(2);
    for first in 0..far {
        let second = (first + far).min(rows - 1);
        // SAFETY: both rows have as many values as `x` (checked by `matmul`); the instructions are the caller's promise.
        let dots = unsafe { two_rows::<P>([w.row(first).as_ptr(), w.row(second).as_ptr()], x) };
        for token in 0..tokens {
            job.out.store(token, first, &dots[..1]);
            job.out.store(token, second, &dots[1..]);
        }
    }
}

/// The products of two rows with `x`.
///
/// # Safety
/// As `one_row`; both rows have `x.len()` values.
#[inline(always)]
unsafe fn two_rows<P: RowPairProduct>(
    rows: [*const u8; 2],
    x: &[<P::Input as FloatInput>::Value],
) -> [f32; 2] {
    let (panel, step) = (P::Input::PANEL, SUMS * P::Input::WIDTH);
    let mut dots = [0f32; 2];
    let mut sums = [[0f32; 16]; WAITING];
    for (many, x) in x.chunks(WAITING * panel).enumerate() {
        for (n, x) in x.chunks(panel).enumerate() {
            let rows = rows.map(|row| row.wrapping_add((many * WAITING + n) * panel * P::BYTES));
            for row in rows {
                prefetch(row, x.len() * P::BYTES);
            }
            let steps = x.len() / step;
            // SAFETY: so many whole steps are left in both rows and in `x`; sixteen floats to store.
            unsafe {
                let mut vector = P::add(rows, x.as_ptr(), steps, zero());
                if steps * step < x.len() {
                    vector = last::<P>(
                        rows.map(|row| row.add(steps * step * P::BYTES)),
                        &x[steps * step..],
                        vector,
                    );
                }
                store_floats(&mut sums[n], vector);
            }
        }
        // SAFETY: the instructions are the caller's promise.
        unsafe { add_totals(&sums, x.len().div_ceil(panel), &mut dots) };
    }
    dots
}

/// Adds the products of the columns past the last whole step.
///
/// # Safety
/// As `two_rows`; fewer columns than a step.
#[inline(always)]
unsafe fn last<P: RowPairProduct>(
    rows: [*const u8; 2],
    x: &[<P::Input as FloatInput>::Value],
    sums: __m512,
) -> __m512 {
    let mut weights = [[0u8; STEP_BYTES]; 2];
    let mut values = [<P::Input as FloatInput>::Value::default(); 2 * SUMS];
    values[..x.len()].copy_from_slice(x);
    for (to, row) in weights.iter_mut().zip(rows) {
        // SAFETY: so many weights are readable, and fewer than a step fit.
        unsafe { std::ptr::copy_nonoverlapping(row, to.as_mut_ptr(), x.len() * P::BYTES) };
    }
    // SAFETY: a whole step of each.
    unsafe { P::add([weights[0].as_ptr(), weights[1].as_ptr()], values.as_ptr(), 1, sums) }
}

avx512! {
/// Zeros.
#[inline]
fn zero() -> __m512 {
    _mm512_setzero_ps()
}
}

avx512! {
/// Adds the totals of the first panels, in order, to the products of two rows.
#[inline]
fn add_totals(sums: &[[f32; 16]; WAITING], panels: usize, dots: &mut [f32; 2]) {
    // SAFETY: sixteen floats each.
    let v: [__m512; WAITING] = std::array::from_fn(|i| unsafe { _mm512_loadu_ps(sums[i].as_ptr()) });
    // A transpose of eight by eight in each half: then lane by lane the panels, vector by vector their sums.
    let mut two = v;
    for i in 0..4 {
        two[2 * i] = _mm512_unpacklo_ps(v[2 * i], v[2 * i + 1]);
        two[2 * i + 1] = _mm512_unpackhi_ps(v[2 * i], v[2 * i + 1]);
    }
    let mut four = two;
    for i in 0..2 {
        for c in 0..2 {
            let (a, b) = (_mm512_castps_pd(two[4 * i + c]), _mm512_castps_pd(two[4 * i + c + 2]));
            four[4 * i + 2 * c] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, b));
            four[4 * i + 2 * c + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, b));
        }
    }
    // Quarters: panels 0 to 3 of the first row, of the second, then panels 4 to 7.
    let mut totals = _mm512_shuffle_f32x4::<0x88>(four[0], four[4]);
    for j in 1..4 {
        totals = _mm512_add_ps(totals, _mm512_shuffle_f32x4::<0x88>(four[j], four[4 + j]));
    }
    for j in 0..4 {
        totals = _mm512_add_ps(totals, _mm512_shuffle_f32x4::<0xdd>(four[j], four[4 + j]));
    }
    let mut out = [0f32; 16];
    store_floats(&mut out, totals);
    for (row, dot) in dots.iter_mut().enumerate() {
        for panel in 0..panels {
            *dot += out[panel / 4 * 8 + 4 * row + panel % 4];
        }
    }
}
}

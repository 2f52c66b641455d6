//! One row of activations in f32, on F32, F16 and BF16 weights as they lie.

use std::arch::x86_64::*;

use super::features::avx512;
use crate::blocks::BlockType;
use crate::matmul::ahead::prefetch;
use crate::matmul::job::{Input, Job, Kernel};

/// Vectors in flight per row: enough to hide the latency of an addition.
const SUMS: usize = 4;

/// A float format: how 16 values become a vector.
trait Floats {
    /// Bytes per value.
    const BYTES: usize;

    /// The values at `p` that `mask` names; the others are zero.
    ///
    /// # Safety
    /// The processor has AVX-512; the named values are readable.
    unsafe fn load(p: *const u8, mask: __mmask16) -> __m512;
}

struct F32;
struct F16;
struct Bf16;

impl Floats for F32 {
    const BYTES: usize = 4;
    avx512! {
    #[inline]
    unsafe fn load(p: *const u8, mask: __mmask16) -> __m512 {
        // SAFETY: the promise of the caller.
        unsafe { _mm512_maskz_loadu_ps(mask, p.cast()) }
    }
    }
}

impl Floats for F16 {
    const BYTES: usize = 2;
    avx512! {
    #[inline]
    unsafe fn load(p: *const u8, mask: __mmask16) -> __m512 {
        // SAFETY: the promise of the caller.
        _mm512_cvtph_ps(unsafe { _mm256_maskz_loadu_epi16(mask, p.cast()) })
    }
    }
}

impl Floats for Bf16 {
    const BYTES: usize = 2;
    avx512! {
    #[inline]
    unsafe fn load(p: *const u8, mask: __mmask16) -> __m512 {
        // SAFETY: the promise of the caller.
        let halves = unsafe { _mm256_maskz_loadu_epi16(mask, p.cast()) };
        _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(halves)))
    }
    }
}

/// The kernel for a float type; `None` for the others.
pub(super) fn kernel(block: BlockType) -> Option<Kernel> {
    match block {
        BlockType::F32 => Some(one_row::<F32>),
        BlockType::F16 => Some(one_row::<F16>),
        BlockType::BF16 => Some(one_row::<Bf16>),
        _ => None,
    }
}

avx512! {
unsafe fn one_row<F: Floats>(job: &Job<'_>) {
    let Input::Float(x) = job.x else { return };
    let x = x.row(job.tokens.row(0));
    let rows = job.w.rows();
    let far = rows.div_ceil(2);
    for first in 0..far {
        let second = (first + far).min(rows - 1);
        // SAFETY: both rows have as many values as `x` (checked by `matmul`).
        let dots = unsafe { two_rows::<F>([job.w.row(first).as_ptr(), job.w.row(second).as_ptr()], x) };
        for token in 0..job.tokens.len() {
            // SAFETY: the caller of a kernel gives this task these columns.
            unsafe {
                job.output.store(token, job.first_row + first, &dots[..1]);
                job.output.store(token, job.first_row + second, &dots[1..]);
            }
        }
    }
}
}

avx512! {
/// The products of two rows, half of the task's rows apart (see `one`), with `x`.
///
/// # Safety
/// Both rows have `x.len()` values.
#[inline]
unsafe fn two_rows<F: Floats>(rows: [*const u8; 2], x: &[f32]) -> [f32; 2] {
    let mut sums = [[_mm512_setzero_ps(); SUMS]; 2];
    let whole = x.len() / (16 * SUMS) * (16 * SUMS);
    let mut at = 0;
    while at < whole {
        for row in rows {
            prefetch(row.wrapping_add(at * F::BYTES), 16 * SUMS * F::BYTES);
        }
        for i in 0..SUMS {
            let k = at + 16 * i;
            // SAFETY: `k + 16 <= x.len()`.
            unsafe {
                let x = _mm512_loadu_ps(x.as_ptr().add(k));
                for (row, sums) in rows.into_iter().zip(&mut sums) {
                    sums[i] = _mm512_fmadd_ps(F::load(row.add(k * F::BYTES), !0), x, sums[i]);
                }
            }
        }
        at += 16 * SUMS;
    }
    while at < x.len() {
        let left = (x.len() - at).min(16);
        let mask = (0xffffu32 >> (16 - left)) as __mmask16;
        // SAFETY: the mask names values before `x.len()` only.
        unsafe {
            let x = _mm512_maskz_loadu_ps(mask, x.as_ptr().add(at));
            for (row, sums) in rows.into_iter().zip(&mut sums) {
                sums[0] = _mm512_fmadd_ps(F::load(row.add(at * F::BYTES), mask), x, sums[0]);
            }
        }
        at += left;
    }
    sums.map(|[a, b, c, d]| _mm512_reduce_add_ps(_mm512_add_ps(_mm512_add_ps(a, b), _mm512_add_ps(c, d))))
}
}

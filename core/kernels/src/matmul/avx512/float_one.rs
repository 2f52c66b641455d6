//! One row of activations in f32, on F32, F16 and BF16 weights as they lie.

use std::arch::x86_64::*;

use crate::blocks::FloatType;
use crate::isa::Avx512;
use crate::isa::avx512;
use crate::matmul::prefetch::prefetch;
use crate::matmul::types::{Choice, Float, Function, Job, Kernel};
use crate::memory::Scratch;

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

/// The kernel for a float type.
pub(super) fn choose(_: Avx512, float: FloatType) -> Choice<Float> {
    let function: Function<Float> = match float {
        FloatType::F32 => one_row::<F32>,
        FloatType::F16 => one_row::<F16>,
        FloatType::BF16 => one_row::<Bf16>,
    };
    // SAFETY: the token is proof of the features; the function is for this type.
    Choice { kernel: unsafe { Kernel::new(float, function) }, tile: 2 }
}

avx512! {
fn one_row<F: Floats>(job: &mut Job<'_, Float>, _: &mut Scratch) {
    let x = job.x.row(job.tokens.row(0));
    let (w, tokens) = (job.w, job.tokens.len());
    let rows = w.rows();
    let far = rows.div_ceil(2);
    for first in 0..far {
        let second = (first + far).min(rows - 1);
        // SAFETY: both rows have as many values as `x` (checked by `matmul`).
        let dots = unsafe { two_rows::<F>([w.row(first).as_ptr(), w.row(second).as_ptr()], x) };
        for token in 0..tokens {
            job.out.store(token, first, &dots[..1]);
            job.out.store(token, second, &dots[1..]);
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

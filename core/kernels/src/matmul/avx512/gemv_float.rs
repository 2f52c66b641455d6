//! One row of activations in f32, on F32, F16 and BF16 weights in place.

use std::arch::x86_64::*;
use std::marker::PhantomData;

use super::gemv_row_pair::{RowPairProduct, row_pairs};
use crate::blocks::FloatType;
use crate::isa::Avx512;
use crate::isa::avx512;
use crate::matmul::order::{F32Input, SUMS};
use crate::matmul::types::{Float, Function, Kernel, KernelChoice, MatmulJob};
use crate::memory::Scratch;

/// A float format: how eight values of two rows become a vector.
trait FloatRowFormat {
    /// Bytes per value.
    const BYTES: usize;

    /// Eight values of each row.
    ///
    /// # Safety
    /// The processor has AVX-512; the values are readable.
    unsafe fn load(rows: [*const u8; 2]) -> __m512;
}

struct StoredF32;
struct StoredF16;
struct StoredBf16;

impl FloatRowFormat for StoredF32 {
    const BYTES: usize = 4;
    avx512! {
    #[inline]
    unsafe fn load(rows: [*const u8; 2]) -> __m512 {
        // SAFETY: the promise of the caller.
        let [low, high] = rows.map(|row| unsafe { _mm256_loadu_ps(row.cast()) });
        _mm512_insertf32x8::<1>(_mm512_castps256_ps512(low), high)
    }
    }
}

avx512! {
/// Eight values of two bytes of each row.
///
/// # Safety
/// They are readable.
#[inline]
unsafe fn halves(rows: [*const u8; 2]) -> __m256i {
    // SAFETY: the promise of the caller.
    let [low, high] = rows.map(|row| unsafe { _mm_loadu_si128(row.cast()) });
    _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(low), high)
}
}

impl FloatRowFormat for StoredF16 {
    const BYTES: usize = 2;
    avx512! {
    #[inline]
    unsafe fn load(rows: [*const u8; 2]) -> __m512 {
        // SAFETY: the promise of the caller.
        _mm512_cvtph_ps(unsafe { halves(rows) })
    }
    }
}

impl FloatRowFormat for StoredBf16 {
    const BYTES: usize = 2;
    avx512! {
    #[inline]
    unsafe fn load(rows: [*const u8; 2]) -> __m512 {
        // SAFETY: the promise of the caller.
        let halves = unsafe { halves(rows) };
        _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(halves)))
    }
    }
}

/// Weights of a format, and activations in f32.
struct FloatProducts<F>(PhantomData<F>);

// SAFETY: floats; at most eight times four bytes.
unsafe impl<F: FloatRowFormat> RowPairProduct for FloatProducts<F> {
    type Input = F32Input;
    const BYTES: usize = F::BYTES;

    avx512! {
    #[inline]
    unsafe fn add(rows: [*const u8; 2], x: *const f32, steps: usize, sums: __m512) -> __m512 {
        let mut sums = sums;
        for step in 0..steps {
            // SAFETY: eight values of each row and of `x` per step.
            unsafe {
                let w = F::load(rows.map(|row| row.add(step * SUMS * F::BYTES)));
                let x = _mm512_broadcast_f32x8(_mm256_loadu_ps(x.add(step * SUMS)));
                sums = _mm512_fmadd_ps(w, x, sums);
            }
        }
        sums
    }
    }
}

/// The kernel for a float type.
pub(super) fn choose(_: Avx512, float: FloatType) -> KernelChoice<Float> {
    let function: Function<Float> = match float {
        FloatType::F32 => gemv::<StoredF32>,
        FloatType::F16 => gemv::<StoredF16>,
        FloatType::BF16 => gemv::<StoredBf16>,
    };
    // SAFETY: the token is proof of the features; the function is for this type.
    KernelChoice { kernel: unsafe { Kernel::new(float, function) }, tile: 2 }
}

avx512! {
fn gemv<F: FloatRowFormat>(job: &mut MatmulJob<'_, Float>, _: &mut Scratch) {
    // SAFETY: the features are this function's own.
    unsafe { row_pairs::<FloatProducts<F>>(job) }
}
}

//! One row of activations rounded to bfloat16, on 16-bit float weights in place (AVX-512 BF16): see `gemm_bfloat16`.

use std::arch::x86_64::*;
use std::marker::PhantomData;

use super::bfloat16_weights::{BFloat16Weights, F16Weights, StoredHalf, half_pairs};
use super::gemv_row_pair::{RowPairProduct, row_pairs};
use crate::blocks::FloatType;
use crate::isa::Avx512BFloat16;
use crate::matmul::order::{BFloat16Input, SUMS};
use crate::matmul::types::{BFloat16, Kernel, KernelChoice, MatmulJob};
use crate::memory::Scratch;

/// The kernel for a type of 16 bits; none for F32.
pub(super) fn choose(_: Avx512BFloat16, float: FloatType) -> Option<KernelChoice<BFloat16>> {
    // SAFETY: the token is proof of the features; the functions are for these types.
    let kernel = unsafe {
        match float {
            FloatType::F32 => return None,
            FloatType::F16 => Kernel::new(float, gemv::<F16Weights>),
            FloatType::BF16 => Kernel::new(float, gemv::<BFloat16Weights>),
        }
    };
    Some(KernelChoice { kernel, tile: 2 })
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx512bf16,f16c,fma,avx2")]
fn gemv<W: StoredHalf>(job: &mut MatmulJob<'_, BFloat16>, _: &mut Scratch) {
    // SAFETY: the features are this function's own.
    unsafe { row_pairs::<BFloat16Products<W>>(job) }
}

/// Weights stored as `W`.
struct BFloat16Products<W>(PhantomData<W>);

// SAFETY: whole numbers; eight pairs of two bytes each.
unsafe impl<W: StoredHalf> RowPairProduct for BFloat16Products<W> {
    type Input = BFloat16Input;
    const BYTES: usize = 2;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx512bf16,f16c,fma,avx2")]
    unsafe fn add(rows: [*const u8; 2], x: *const u16, steps: usize, sums: __m512) -> __m512 {
        let mut sums = sums;
        for step in 0..steps {
            // SAFETY: eight pairs of each row and of `x` per step.
            unsafe {
                let [low, high] = rows.map(|row| _mm256_loadu_si256(row.add(step * SUMS * 4).cast()));
                let w = W::halves(_mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high));
                let x = _mm512_broadcast_i64x4(_mm256_loadu_si256(x.add(step * SUMS * 2).cast()));
                sums = _mm512_dpbf16_ps(sums, half_pairs(w), half_pairs(x));
            }
        }
        sums
    }
}

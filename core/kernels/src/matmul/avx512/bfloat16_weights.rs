//! 16-bit floats of files as the bfloat16 that AVX-512 BF16 multiplies.

use std::arch::x86_64::*;

/// A 16-bit float that weights are stored in.
pub(super) trait StoredHalf {
    /// 32 stored values as bfloat16, rounded to nearest; below 2^-63 they are zero (see `order`).
    ///
    /// # Safety
    /// The processor has AVX-512 BF16.
    unsafe fn halves(stored: __m512i) -> __m512i;
}

/// Weights in bfloat16.
pub(super) struct BFloat16Weights;

impl StoredHalf for BFloat16Weights {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx512bf16,f16c,fma,avx2")]
    unsafe fn halves(stored: __m512i) -> __m512i {
        // The upper two bits of the exponent that are below its sign: 64 and more, biased by 127.
        _mm512_maskz_mov_epi16(_mm512_test_epi16_mask(stored, _mm512_set1_epi16(0x6000)), stored)
    }
}

/// Weights in IEEE half precision: the smallest is 2^-24.
pub(super) struct F16Weights;

impl StoredHalf for F16Weights {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx512bf16,f16c,fma,avx2")]
    unsafe fn halves(stored: __m512i) -> __m512i {
        let low = _mm512_cvtph_ps(_mm512_castsi512_si256(stored));
        let high = _mm512_cvtph_ps(_mm512_extracti64x4_epi64::<1>(stored));
        // SAFETY: vectors of the same size in which any bits are valid.
        unsafe { std::mem::transmute::<__m512bh, __m512i>(_mm512_cvtne2ps_pbh(high, low)) }
    }
}

/// The vector as pairs of bfloat16.
#[inline(always)]
pub(super) fn half_pairs(v: __m512i) -> __m512bh {
    // SAFETY: vectors of the same size in which any bits are valid.
    unsafe { std::mem::transmute::<__m512i, __m512bh>(v) }
}

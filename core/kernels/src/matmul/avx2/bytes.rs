//! The products of bytes shared by the kernels here.

use std::arch::x86_64::*;

use crate::blocks::Format;
use crate::isa::avx2;

/// Whether values plus their offset, times 127 and twice, fit in 16 bits; if not, the sign of the weight is moved to
/// the activation.
pub(super) const fn fits<F: Format>() -> bool {
    F::SPAN <= 126
}

/// The offset that is added to weights before they are stored as bytes.
pub(super) const fn offset<F: Format>() -> i8 {
    if fits::<F>() { F::OFFSET as i8 } else { 0 }
}

/// The offset times the sum of activations, negated, from -128 times the sum.
#[inline(always)]
pub(super) fn correction<F: Format>(neg128: i32) -> i32 {
    if fits::<F>() && F::OFFSET > 0 { neg128 >> (7 - F::OFFSET.ilog2()) } else { 0 }
}

avx2! {
/// Sums of two neighboring products in 16 bits: weights with their offset, or without it if they do not fit.
#[inline]
pub(super) fn pairs<F: Format>(w: __m256i, x: __m256i) -> __m256i {
    if fits::<F>() {
        _mm256_maddubs_epi16(w, x)
    } else {
        _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w))
    }
}
}

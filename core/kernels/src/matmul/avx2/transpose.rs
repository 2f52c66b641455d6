//! Transposing dwords.

use std::arch::x86_64::*;

use crate::isa::avx2;

avx2! {
/// An 8 x 8 transpose of dwords.
#[inline]
pub(super) fn transpose8(a: [__m256i; 8]) -> [__m256i; 8] {
    let mut b = a;
    for i in 0..4 {
        b[2 * i] = _mm256_unpacklo_epi32(a[2 * i], a[2 * i + 1]);
        b[2 * i + 1] = _mm256_unpackhi_epi32(a[2 * i], a[2 * i + 1]);
    }
    let mut c = b;
    for i in 0..2 {
        let q = 4 * i;
        c[q] = _mm256_unpacklo_epi64(b[q], b[q + 2]);
        c[q + 1] = _mm256_unpackhi_epi64(b[q], b[q + 2]);
        c[q + 2] = _mm256_unpacklo_epi64(b[q + 1], b[q + 3]);
        c[q + 3] = _mm256_unpackhi_epi64(b[q + 1], b[q + 3]);
    }
    let mut o = c;
    for j in 0..4 {
        o[j] = _mm256_permute2x128_si256::<0x20>(c[j], c[4 + j]);
        o[4 + j] = _mm256_permute2x128_si256::<0x31>(c[j], c[4 + j]);
    }
    o
}
}

//! Transposing dwords.

use std::arch::x86_64::*;

use crate::isa::avx2;
use crate::matmul::tiles::LANES;
use crate::matmul::unpacked::Unpacked;

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

avx2! {
/// Transposes eight dwords of each of 16 rows: `each` takes a column, and the half of the rows that the lanes hold.
#[inline]
pub(super) fn turn_dwords(row: impl Fn(usize) -> __m256i, mut each: impl FnMut(usize, usize, __m256i)) {
    for half in 0..2 {
        let first = 8 * half;
        let rows = [0, 1, 2, 3, 4, 5, 6, 7].map(|i| row(first + i));
        for (column, v) in transpose8(rows).into_iter().enumerate() {
            each(column, half, v);
        }
    }
}
}

avx2! {
/// Stores eight of 16 dwords.
#[inline]
pub(super) fn store_half<N>(to: &mut [N; LANES], half: usize, v: __m256i) {
    const { assert!(size_of::<N>() == 4) }
    // SAFETY: `8 half + 8 <= 16` dwords.
    unsafe { _mm256_storeu_si256(to.as_mut_ptr().add(8 * half).cast(), v) }
}
}

avx2! {
/// Transposes unpacked values, with `plus` added, so that rows are in lanes:
/// `[columns / 32][dword][16 rows x 4 columns]`.
#[inline]
pub(super) fn turn(w: &[Unpacked; LANES], plus: i8, to: &mut [[[i8; 64]; 8]; 8]) {
    let plus = _mm256_set1_epi8(plus);
    for (g, to) in to.iter_mut().enumerate() {
        for half in 0..2 {
            // SAFETY: `32 g + 32 <= 256`, the length of `q`.
            let load = |i: usize| unsafe { _mm256_loadu_si256(w[8 * half + i].q.as_ptr().add(32 * g).cast()) };
            let rows = [load(0), load(1), load(2), load(3), load(4), load(5), load(6), load(7)];
            for (v, to) in transpose8(rows).into_iter().zip(to.iter_mut()) {
                // SAFETY: `32 * half + 32 <= 64`.
                unsafe { _mm256_storeu_si256(to.as_mut_ptr().add(32 * half).cast(), _mm256_add_epi8(v, plus)) }
            }
        }
    }
}
}

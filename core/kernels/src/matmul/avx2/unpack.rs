//! Unpacking of the common formats with AVX2; the others go through `Format::expand`.

use std::arch::x86_64::*;

use crate::blocks::{Format, IQ4_LEVELS, MXFP4_LEVELS, QuantType, SUPER};
use crate::isa::avx2;
use crate::matmul::unpacked::Unpacked;

avx2! {
/// Like `Unpacked::fill`: the blocks of one panel, up to 256 values; for the wide formats only the values.
#[inline]
pub(super) fn fill<F: Format>(w: &mut Unpacked, blocks: &[u8]) {
    let whole = blocks.len() >= SUPER / F::LEN * F::BYTES;
    // SAFETY: all blocks of 256 values are there.
    unsafe {
        match F::QUANT {
            QuantType::Q4_0 if whole => nibbles::<F>(w, blocks, |v, _| _mm256_sub_epi8(v, _mm256_set1_epi8(8))),
            QuantType::Q4_1 if whole => nibbles::<F>(w, blocks, |v, _| v),
            QuantType::Q5_0 if whole => nibbles::<F>(w, blocks, |v, block| {
                _mm256_sub_epi8(fifth(v, block, 2), _mm256_set1_epi8(16))
            }),
            QuantType::Q5_1 if whole => nibbles::<F>(w, blocks, |v, block| fifth(v, block, 4)),
            QuantType::IQ4_NL if whole => nibbles::<F>(w, blocks, |v, _| level(&IQ4_LEVELS, v)),
            QuantType::MXFP4 if whole => nibbles::<F>(w, blocks, |v, _| level(&MXFP4_LEVELS, v)),
            QuantType::IQ4_XS if whole => iq4_xs(w, blocks),
            QuantType::Q5_K if whole => q5_k(w, blocks),
            QuantType::Q8_0 if whole => bytes::<F>(w, blocks),
            QuantType::Q4_K if whole => q4_k(w, blocks),
            QuantType::Q6_K if whole => q6_k(w, blocks),
            _ => w.fill::<F>(blocks),
        }
    }
}
}

avx2! {
/// Entries of a table by nibbles.
#[inline]
fn level(table: &[i8; 16], v: __m256i) -> __m256i {
    // SAFETY: the table has 16 bytes.
    _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(unsafe { _mm_loadu_si128(table.as_ptr().cast()) }), v)
}
}

avx2! {
/// The f16 at `at` of eight blocks of 32.
///
/// # Safety
/// Eight blocks.
#[inline]
unsafe fn eight_halves<F: Format>(p: *const u8, at: usize) -> __m256 {
    // SAFETY: the promise of the caller.
    let h = |i: usize| unsafe { p.add(i * F::BYTES + at).cast::<i16>().read_unaligned() };
    _mm256_cvtph_ps(_mm_setr_epi16(h(0), h(1), h(2), h(3), h(4), h(5), h(6), h(7)))
}
}

avx2! {
/// The scales, and minima if the format has them, of eight blocks of 32.
///
/// # Safety
/// Eight blocks.
#[inline]
unsafe fn scales<F: Format>(w: &mut Unpacked, blocks: &[u8]) {
    // SAFETY: the promise of the caller; eight scales and minima fit.
    unsafe {
        if F::QUANT == QuantType::MXFP4 {
            for (scale, block) in w.scale.iter_mut().zip(blocks.chunks_exact(F::BYTES)) {
                *scale = crate::blocks::e8m0_half(block[0]);
            }
        } else {
            _mm256_storeu_ps(w.scale.as_mut_ptr(), eight_halves::<F>(blocks.as_ptr(), 0));
        }
        if F::MIN {
            let minima = eight_halves::<F>(blocks.as_ptr(), 2);
            _mm256_storeu_ps(w.min.as_mut_ptr(), _mm256_sub_ps(_mm256_setzero_ps(), minima));
        }
    }
}
}

avx2! {
/// Sixteen bytes of nibbles: the low ones, then the high ones.
///
/// # Safety
/// Sixteen readable bytes.
#[inline]
unsafe fn split(p: *const u8) -> __m256i {
    // SAFETY: the promise of the caller.
    let v = unsafe { _mm_loadu_si128(p.cast()) };
    let v = _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(v), _mm_srli_epi16::<4>(v));
    _mm256_and_si256(v, _mm256_set1_epi8(15))
}
}

avx2! {
/// Adds the fifth bits, 32 of them at `at` in the block, to nibbles.
///
/// # Safety
/// Four readable bytes there.
#[inline]
unsafe fn fifth(v: __m256i, block: *const u8, at: usize) -> __m256i {
    // SAFETY: the promise of the caller.
    let bits = _mm256_set1_epi32(unsafe { block.add(at).cast::<i32>().read_unaligned() });
    // Every byte gets the byte that holds its bit.
    let ones = 0x0101_0101_0101_0101;
    let bits = _mm256_shuffle_epi8(bits, _mm256_setr_epi64x(0, ones, 2 * ones, 3 * ones));
    let own = _mm256_set1_epi64x(0x8040_2010_0804_0201_u64 as i64);
    let set = _mm256_cmpeq_epi8(_mm256_and_si256(bits, own), own);
    _mm256_or_si256(v, _mm256_and_si256(set, _mm256_set1_epi8(16)))
}
}

avx2! {
/// Eight blocks that end in 16 bytes of nibbles.
///
/// # Safety
/// Eight blocks.
#[inline]
unsafe fn nibbles<F: Format>(w: &mut Unpacked, blocks: &[u8], value: impl Fn(__m256i, *const u8) -> __m256i) {
    // SAFETY: the promise of the caller; 256 bytes of values fit.
    unsafe {
        scales::<F>(w, blocks);
        for g in 0..8 {
            let block = blocks.as_ptr().add(g * F::BYTES);
            let v = value(split(block.add(F::BYTES - 16)), block);
            _mm256_storeu_si256(w.q.as_mut_ptr().add(32 * g).cast(), v);
        }
    }
}
}

avx2! {
/// Eight blocks of a scale and 32 signed bytes.
///
/// # Safety
/// Eight blocks.
#[inline]
unsafe fn bytes<F: Format>(w: &mut Unpacked, blocks: &[u8]) {
    // SAFETY: the promise of the caller; 256 bytes of values fit.
    unsafe {
        scales::<F>(w, blocks);
        for g in 0..8 {
            let v = _mm256_loadu_si256(blocks.as_ptr().add(g * F::BYTES + 2).cast());
            _mm256_storeu_si256(w.q.as_mut_ptr().add(32 * g).cast(), v);
        }
    }
}
}

avx2! {
/// A block of Q4_K.
///
/// # Safety
/// 144 bytes.
#[inline]
unsafe fn q4_k(w: &mut Unpacked, block: &[u8]) {
    // SAFETY: the promise of the caller; 256 bytes of values fit.
    unsafe {
        let p = block.as_ptr();
        let m4 = _mm256_set1_epi8(15);
        for pair in 0..4 {
            let v = _mm256_loadu_si256(p.add(16 + 32 * pair).cast());
            let to = w.q.as_mut_ptr().add(64 * pair);
            _mm256_storeu_si256(to.cast(), _mm256_and_si256(v, m4));
            _mm256_storeu_si256(to.add(32).cast(), _mm256_and_si256(_mm256_srli_epi16::<4>(v), m4));
        }
    }
}
}

avx2! {
/// A block of Q5_K.
///
/// # Safety
/// 176 bytes.
#[inline]
unsafe fn q5_k(w: &mut Unpacked, block: &[u8]) {
    // SAFETY: the promise of the caller; 256 bytes of values fit.
    unsafe {
        let p = block.as_ptr();
        let (m4, one) = (_mm256_set1_epi8(15), _mm256_set1_epi8(1));
        let mut high = _mm256_loadu_si256(p.add(16).cast());
        for pair in 0..4 {
            let v = _mm256_loadu_si256(p.add(48 + 32 * pair).cast());
            let to = w.q.as_mut_ptr().add(64 * pair);
            let top = _mm256_slli_epi16::<4>(_mm256_and_si256(high, one));
            _mm256_storeu_si256(to.cast(), _mm256_or_si256(_mm256_and_si256(v, m4), top));
            high = _mm256_srli_epi16::<1>(high);
            let top = _mm256_slli_epi16::<4>(_mm256_and_si256(high, one));
            let v = _mm256_and_si256(_mm256_srli_epi16::<4>(v), m4);
            _mm256_storeu_si256(to.add(32).cast(), _mm256_or_si256(v, top));
            high = _mm256_srli_epi16::<1>(high);
        }
    }
}
}

avx2! {
/// A block of IQ4_XS.
///
/// # Safety
/// 136 bytes.
#[inline]
unsafe fn iq4_xs(w: &mut Unpacked, block: &[u8]) {
    // SAFETY: the promise of the caller; 256 bytes of values fit.
    unsafe {
        let p = block.as_ptr();
        for g in 0..8 {
            let v = level(&IQ4_LEVELS, split(p.add(8 + 16 * g)));
            _mm256_storeu_si256(w.q.as_mut_ptr().add(32 * g).cast(), v);
        }
    }
}
}

avx2! {
/// A block of Q6_K.
///
/// # Safety
/// 210 bytes.
#[inline]
unsafe fn q6_k(w: &mut Unpacked, block: &[u8]) {
    // SAFETY: the promise of the caller; 256 bytes of values fit.
    unsafe {
        let p = block.as_ptr();
        let (m4, m48, minus) = (_mm256_set1_epi8(15), _mm256_set1_epi8(48), _mm256_set1_epi8(32));
        for half in 0..2 {
            let a = _mm256_loadu_si256(p.add(64 * half).cast());
            let b = _mm256_loadu_si256(p.add(64 * half + 32).cast());
            let high = _mm256_loadu_si256(p.add(128 + 32 * half).cast());
            let parts = [
                (a, _mm256_slli_epi16::<4>(high)),
                (b, _mm256_slli_epi16::<2>(high)),
                (_mm256_srli_epi16::<4>(a), high),
                (_mm256_srli_epi16::<4>(b), _mm256_srli_epi16::<2>(high)),
            ];
            for (n, (low, high)) in parts.into_iter().enumerate() {
                let v = _mm256_or_si256(_mm256_and_si256(low, m4), _mm256_and_si256(high, m48));
                let to = w.q.as_mut_ptr().add(128 * half + 32 * n);
                _mm256_storeu_si256(to.cast(), _mm256_sub_epi8(v, minus));
            }
        }
    }
}
}

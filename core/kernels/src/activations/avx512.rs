//! Rounding to 8 bits with AVX-512: the same numbers as `int8`.

use std::arch::x86_64::*;

use super::Rounding;
use super::int8::Meta;
use crate::blocks::SUPER;
use crate::isa::avx512;

avx512! {
/// Rounds up to 256 values; missing values count as zero.
pub(super) fn quantize(values: &[f32], rounding: Rounding, q: &mut [i8; SUPER], meta: &mut Meta) {
    match values.first_chunk::<SUPER>() {
        Some(values) => whole(values, rounding, q, meta),
        None => {
            let mut padded = [0f32; SUPER];
            padded[..values.len()].copy_from_slice(values);
            whole(&padded, rounding, q, meta);
        }
    }
}
}

avx512! {
#[inline]
fn whole(values: &[f32; SUPER], rounding: Rounding, q: &mut [i8; SUPER], meta: &mut Meta) {
    let mut largest = maxima(values);
    if rounding == Rounding::Q8_K {
        let m = _mm256_max_epu32(largest, _mm256_permute2x128_si256::<1>(largest, largest));
        let m = _mm256_max_epu32(m, _mm256_shuffle_epi32::<0x4e>(m));
        largest = _mm256_max_epu32(m, _mm256_shuffle_epi32::<0xb1>(m));
    }
    let d = _mm256_div_ps(_mm256_castsi256_ps(largest), _mm256_set1_ps(127.0));
    let normal = _mm256_cmp_ps_mask::<_CMP_GE_OQ>(d, _mm256_set1_ps(f32::MIN_POSITIVE));
    let inverse = _mm256_maskz_div_ps(normal, _mm256_set1_ps(1.0), d);
    let inverse = _mm512_castps256_ps512(inverse);
    for g in 0..16 {
        let factor = _mm512_permutexvar_ps(_mm512_set1_epi32(g as i32 / 2), inverse);
        // SAFETY: `16 g + 16 <= 256` values and bytes.
        unsafe {
            let v = _mm512_mul_ps(_mm512_loadu_ps(values.as_ptr().add(16 * g)), factor);
            _mm_storeu_si128(q.as_mut_ptr().add(16 * g).cast(), _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(v)));
        }
    }
    sums(q, d, meta);
}
}

avx512! {
/// The largest magnitude of each 32 values, as bits: a NaN counts as larger than all numbers.
#[inline]
fn maxima(values: &[f32; SUPER]) -> __m256i {
    let mask = _mm512_set1_epi32(0x7fff_ffff);
    let mut m = [_mm512_setzero_si512(); 8];
    for (g, m) in m.iter_mut().enumerate() {
        // SAFETY: `32 g + 32 <= 256` values.
        let [a, b] = unsafe {
            let from = values.as_ptr().add(32 * g);
            [_mm512_loadu_si512(from.cast()), _mm512_loadu_si512(from.add(16).cast())]
        };
        *m = _mm512_max_epu32(_mm512_and_si512(a, mask), _mm512_and_si512(b, mask));
    }
    let pair = |a, b| _mm512_max_epu32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
    let four = |a, b| _mm512_max_epu32(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
    let across = |v| {
        let v = _mm512_max_epu32(v, _mm512_shuffle_i32x4::<0x4e>(v, v));
        _mm512_castsi512_si128(_mm512_max_epu32(v, _mm512_shuffle_i32x4::<0xb1>(v, v)))
    };
    let low = across(four(pair(m[0], m[1]), pair(m[2], m[3])));
    let high = across(four(pair(m[4], m[5]), pair(m[6], m[7])));
    _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(low), high)
}
}

avx512! {
/// Fills in the scales and the sums of the rounded values.
#[inline]
fn sums(q: &[i8; SUPER], d: __m256, meta: &mut Meta) {
    let ones = _mm512_set1_epi8(1);
    let mut quads = [_mm512_setzero_si512(); 4];
    for (part, quad) in quads.iter_mut().enumerate() {
        // SAFETY: `64 part + 64 <= 256` bytes.
        let v = unsafe { _mm512_loadu_si512(q.as_ptr().add(64 * part).cast()) };
        let v = _mm512_dpbusd_epi32(_mm512_setzero_si512(), ones, v);
        let v = _mm512_add_epi32(v, _mm512_shuffle_epi32::<0xb1>(v));
        *quad = _mm512_add_epi32(v, _mm512_shuffle_epi32::<0x4e>(v));
    }
    // Every lane of 128 bits holds the sum of its 16 values four times: use one of each.
    let pick = _mm512_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28, 0, 4, 8, 12, 16, 20, 24, 28);
    let low = _mm512_permutex2var_epi32(quads[0], pick, quads[1]);
    let high = _mm512_permutex2var_epi32(quads[2], pick, quads[3]);
    let sum16 = _mm512_inserti64x4::<1>(low, _mm512_castsi512_si256(high));
    let even = _mm512_add_epi32(sum16, _mm512_shuffle_epi32::<0xb1>(sum16));
    let sum32 = _mm512_cvtepi64_epi32(even);
    let dsum = _mm256_mul_ps(d, _mm256_cvtepi32_ps(sum32));
    // SAFETY: arrays of 8 and 16 elements of two or four bytes.
    unsafe {
        _mm256_storeu_ps(meta.d.as_mut_ptr(), d);
        _mm256_storeu_ps(meta.dsum.as_mut_ptr(), dsum);
        let neg = _mm256_sub_epi32(_mm256_setzero_si256(), sum32);
        _mm256_storeu_si256(meta.neg32.as_mut_ptr().cast(), _mm256_slli_epi32::<7>(neg));
        _mm_storeu_si128(meta.sum32.as_mut_ptr().cast(), _mm256_cvtepi32_epi16(sum32));
        let neg = _mm512_sub_epi32(_mm512_setzero_si512(), sum16);
        _mm512_storeu_si512(meta.neg16.as_mut_ptr().cast(), _mm512_slli_epi32::<7>(neg));
        _mm256_storeu_si256(meta.sum16.as_mut_ptr().cast(), _mm512_cvtepi32_epi16(sum16));
    }
}
}

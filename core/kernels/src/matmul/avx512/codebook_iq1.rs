//! Values of the codebooks of IQ1, looked up: see `codebook`.

use std::arch::x86_64::*;

use super::codebook::{CodebookFormat, LookedUp, entries};
use crate::blocks::{IQ1_TIMES_8, Iq1M, Iq1S};
use crate::isa::avx512_bytes;

avx512_bytes! {
/// The values of the codebook of IQ1 at 32 indices, times eight, plus 16, shifted up by one, or down for the words of
/// `down`.
#[inline]
fn shifted(index: __m512i, down: __mmask32) -> [__m512i; 4] {
    let (up, two) = (_mm512_set1_epi8(17), _mm512_set1_epi8(2));
    let mut n = 0;
    // SAFETY: eleven bits of indices, as many entries.
    unsafe { entries(&IQ1_TIMES_8, _mm512_and_si512(index, _mm512_set1_epi16(2047))) }.map(|v| {
        let v = _mm512_add_epi8(v, up);
        let down = _pext_u32(down, 0x1111_1111 << n) as u8;
        n += 1;
        // Bytes are at least 7: nothing is borrowed from the next one.
        _mm512_mask_sub_epi64(v, down, v, two)
    })
}
}

impl CodebookFormat for Iq1S {
    type Tables = ();
    const TOO_LARGE: i16 = 16;

    avx512_bytes! {
    #[inline]
    unsafe fn tables() {}
    }

    avx512_bytes! {
    #[inline]
    unsafe fn values(p: *const u8, _: &()) -> LookedUp {
        // SAFETY: the caller's block of 50 bytes: 32 of indices, 8 words of high bits after two.
        unsafe {
            let low = _mm512_cvtepu8_epi16(_mm256_loadu_si256(p.add(2).cast()));
            let high = iq1s_words(p);
            let down = _mm512_movepi16_mask(high);
            let high = _mm512_srlv_epi16(high, _mm512_set1_epi64(0x0009_0006_0003_0000));
            let high = _mm512_slli_epi16::<8>(_mm512_and_si512(high, _mm512_set1_epi16(7)));
            LookedUp { values: shifted(_mm512_or_si512(low, high), down), signs: [0; 4] }
        }
    }
    }
}

avx512_bytes! {
/// The word of each group of IQ1_S four times.
///
/// # Safety
/// A block of 50 bytes.
#[inline]
unsafe fn iq1s_words(p: *const u8) -> __m512i {
    // SAFETY: the promise of the caller.
    let words = _mm512_cvtepu16_epi64(unsafe { _mm_loadu_si128(p.add(34).cast()) });
    let both = _mm_set_epi64x(0x0908_0908_0908_0908, 0x0100_0100_0100_0100);
    _mm512_shuffle_epi8(words, _mm512_broadcast_i32x4(both))
}
}

impl CodebookFormat for Iq1M {
    type Tables = ();
    const TOO_LARGE: i16 = 16;

    avx512_bytes! {
    #[inline]
    unsafe fn tables() {}
    }

    avx512_bytes! {
    #[inline]
    unsafe fn values(p: *const u8, _: &()) -> LookedUp {
        // SAFETY: the caller's block of 56 bytes: 32 of indices, 16 of high bits.
        unsafe {
            let low = _mm512_cvtepu8_epi16(_mm256_loadu_si256(p.cast()));
            // A nibble for each index: two bytes for the four of a group.
            let high = _mm512_cvtepu16_epi64(_mm_loadu_si128(p.add(32).cast()));
            let both = _mm_set_epi64x(0x0908_0908_0908_0908, 0x0100_0100_0100_0100);
            let high = _mm512_shuffle_epi8(high, _mm512_broadcast_i32x4(both));
            let high = _mm512_srlv_epi16(high, _mm512_set1_epi64(0x000c_0008_0004_0000));
            let down = _mm512_test_epi16_mask(high, _mm512_set1_epi16(8));
            let high = _mm512_slli_epi16::<8>(_mm512_and_si512(high, _mm512_set1_epi16(7)));
            LookedUp { values: shifted(_mm512_or_si512(low, high), down), signs: [0; 4] }
        }
    }
    }
}

//! Values of the codebook formats, looked up for tiles.
//!
//! Vector `n` of four has in quadword `g` the `n`th eight values of group `g` of 32: one instruction then extracts an
//! entry's eight values, or two entries' four, from the words that the codebooks store. Small codebooks are kept in
//! registers, large ones are read entry by entry (a gather of Zen 4 is no faster). One row of activations uses
//! `planes`.

use std::arch::x86_64::*;

use super::gemv::load;
use crate::blocks::*;
use crate::isa::avx512_bytes;

/// 256 values of a block.
pub(super) struct LookedUp {
    /// The values, or their magnitudes.
    pub(super) values: [__m512i; 4],
    /// Which of them are negative.
    pub(super) signs: [__mmask64; 4],
}

/// A format with a code book.
pub(super) trait CodebookFormat: WideFormat {
    /// What is in registers.
    type Tables: Copy;
    /// The excess of the values; nonzero only without signs.
    const TOO_LARGE: i16;

    /// The tables.
    ///
    /// # Safety
    /// The processor has the features of `Avx512Bytes`; this holds for all functions below.
    unsafe fn tables() -> Self::Tables;

    /// The values of the block at `p`.
    ///
    /// # Safety
    /// A block at `p`.
    unsafe fn values(p: *const u8, tables: &Self::Tables) -> LookedUp;
}

avx512_bytes! {
/// The vectors of a table of words.
#[inline]
fn vectors<const V: usize>(table: &[u16]) -> [__m512i; V] {
    let (table, mut v) = (table.as_chunks::<32>().0, [_mm512_setzero_si512(); V]);
    for (v, words) in v.iter_mut().zip(table) {
        // SAFETY: 64 bytes.
        *v = unsafe { load(words.as_ptr()) };
    }
    v
}
}

avx512_bytes! {
/// The entries of a codebook of 256 at the lower eight bits of 32 words.
#[inline]
fn of_256(book: &[__m512i; 8], index: __m512i) -> __m512i {
    let pair = |i: usize| _mm512_permutex2var_epi16(book[2 * i], index, book[2 * i + 1]);
    let (six, seven) =
        (_mm512_test_epi16_mask(index, _mm512_set1_epi16(64)), _mm512_test_epi16_mask(index, _mm512_set1_epi16(128)));
    let (a, b) = (_mm512_mask_blend_epi16(six, pair(0), pair(1)), _mm512_mask_blend_epi16(six, pair(2), pair(3)));
    _mm512_mask_blend_epi16(seven, a, b)
}
}

avx512_bytes! {
/// From every quadword the eight bytes that begin `start + step * j` bits into it.
#[inline]
fn bytes_at(v: __m512i, start: usize, step: usize) -> __m512i {
    let from = |j: usize| ((start + step * j) as i64 & 63) << (8 * j);
    let control = (0..8).fold(0, |all, j| all | from(j));
    _mm512_multishift_epi64_epi8(_mm512_set1_epi64(control), v)
}
}

avx512_bytes! {
/// The values of eight indices of two bits each in word `n` of every quadword.
#[inline]
fn two_bits(words: __m512i) -> [__m512i; 4] {
    let [a, b, c, d] = TWO_BIT_LEVELS;
    let levels = _mm512_set1_epi32(i32::from_le_bytes([a as u8, b as u8, c as u8, d as u8]));
    [0, 1, 2, 3].map(|n| _mm512_permutexvar_epi8(bytes_at(words, 16 * n, 2), levels))
}
}

avx512_bytes! {
/// The values of the indices of four bits each in the words of two vectors, the second halves of groups in the second.
#[inline]
fn four_bits(words: [__m512i; 2], levels: [u8; 8]) -> [__m512i; 4] {
    let levels = _mm512_set1_epi64(i64::from_le_bytes(levels));
    [0, 1, 2, 3].map(|n| _mm512_shuffle_epi8(levels, bytes_at(words[n / 2], 32 * (n % 2), 4)))
}
}

avx512_bytes! {
/// Bytes 0 to 3 of every quadword, one to each of four masks.
#[inline]
fn masks(bytes: __m512i) -> [__mmask64; 4] {
    let mut order = [0u8; 64];
    for (i, from) in order.iter_mut().enumerate() {
        *from = (i % 8 * 8 + i / 8 % 4) as u8;
    }
    let mut masks = [0; 4];
    // SAFETY: 64 bytes to read, 32 to write.
    unsafe {
        let sorted = _mm512_permutexvar_epi8(load(order.as_ptr()), bytes);
        _mm256_storeu_si256(masks.as_mut_ptr().cast(), _mm512_castsi512_si256(sorted));
    }
    masks
}
}

avx512_bytes! {
/// The signs in four fields of seven bits, `step` apart, of every quadword; the eighth makes their number even.
#[inline]
fn even_signs(v: __m512i, start: usize, step: usize) -> [__mmask64; 4] {
    let parity = _mm512_set1_epi64(0x0102_0408_1020_407f);
    masks(_mm512_gf2p8affine_epi64_epi8::<0>(bytes_at(v, start, step), parity))
}
}

avx512_bytes! {
/// The eight bytes at `p`, one to a quadword.
///
/// # Safety
/// Eight readable bytes.
#[inline]
unsafe fn eight_bytes(p: *const u8) -> __m512i {
    // SAFETY: the promise of the caller.
    _mm512_cvtepu8_epi64(unsafe { _mm_loadl_epi64(p.cast()) })
}
}

avx512_bytes! {
/// Bytes `4 part` to `4 part + 3` of every quadword as its words.
#[inline]
fn words_of(v: __m512i, part: i64) -> __m512i {
    let four = 0x8003_8002_8001_8000_u64 as i64 + 0x0004_0004_0004_0004 * part;
    let eight = four + 0x0008_0008_0008_0008;
    _mm512_shuffle_epi8(v, _mm512_broadcast_i32x4(_mm_set_epi64x(eight, four)))
}
}

avx512_bytes! {
/// The entries of a codebook at 32 indices: quadword `g` of vector `n` is that of index `4 g + n`.
///
/// # Safety
/// The book has such entries.
#[inline]
pub(super) unsafe fn entries(book: &[u64], index: __m512i) -> [__m512i; 4] {
    let mut at = [0u16; 32];
    // SAFETY: 64 bytes.
    unsafe { _mm512_storeu_si512(at.as_mut_ptr().cast(), index) };
    // SAFETY: the promise of the caller.
    let entry = |n: usize, g: usize| unsafe { *book.get_unchecked(usize::from(at[4 * g + n])) } as i64;
    [0, 1, 2, 3].map(|n| {
        let e = |g: usize| entry(n, g);
        _mm512_setr_epi64(e(0), e(1), e(2), e(3), e(4), e(5), e(6), e(7))
    })
}
}

impl CodebookFormat for Iq2Xxs {
    type Tables = [__m512i; 8];
    const TOO_LARGE: i16 = 0;

    avx512_bytes! {
    #[inline]
    unsafe fn tables() -> [__m512i; 8] {
        vectors(&IQ2_XXS_PACKED)
    }
    }

    avx512_bytes! {
    #[inline]
    unsafe fn values(p: *const u8, book: &[__m512i; 8]) -> LookedUp {
        // SAFETY: the caller's block of 66 bytes.
        let v = unsafe { load(p.add(2)) };
        LookedUp { values: two_bits(of_256(book, words_of(v, 0))), signs: even_signs(v, 32, 7) }
    }
    }
}

impl CodebookFormat for Iq2Xs {
    type Tables = [__m512i; 16];
    const TOO_LARGE: i16 = 0;

    avx512_bytes! {
    #[inline]
    unsafe fn tables() -> [__m512i; 16] {
        vectors(&IQ2_XS_PACKED)
    }
    }

    avx512_bytes! {
    #[inline]
    unsafe fn values(p: *const u8, book: &[__m512i; 16]) -> LookedUp {
        // SAFETY: the caller's block of 74 bytes.
        let v = unsafe { load(p.add(2)) };
        let words = of_512(book, v, _mm512_test_epi16_mask(v, _mm512_set1_epi16(256)));
        LookedUp { values: two_bits(words), signs: even_signs(v, 9, 16) }
    }
    }
}

avx512_bytes! {
/// The entries of a codebook of 512 at the lower eight bits of 32 words and a ninth bit.
#[inline]
fn of_512(book: &[__m512i; 16], index: __m512i, ninth: __mmask32) -> __m512i {
    let ([low, high], _) = book.as_chunks::<8>() else { return index };
    _mm512_mask_blend_epi16(ninth, of_256(low, index), of_256(high, index))
}
}

avx512_bytes! {
/// The sign bytes at `p`, four to a group.
///
/// # Safety
/// 32 readable bytes.
#[inline]
unsafe fn sign_bytes(p: *const u8) -> [__mmask64; 4] {
    // SAFETY: the promise of the caller.
    masks(_mm512_cvtepu32_epi64(unsafe { _mm256_loadu_si256(p.cast()) }))
}
}

impl CodebookFormat for Iq2S {
    type Tables = ();
    const TOO_LARGE: i16 = 0;

    avx512_bytes! {
    #[inline]
    unsafe fn tables() {}
    }

    avx512_bytes! {
    #[inline]
    unsafe fn values(p: *const u8, _: &()) -> LookedUp {
        // SAFETY: the caller's block of 82 bytes: 32 of indices, 32 of signs, 8 of high bits after two; ten bits of
        // indices, as many entries.
        unsafe {
            let low = _mm512_cvtepu8_epi16(_mm256_loadu_si256(p.add(2).cast()));
            let by_two = _mm512_set1_epi64(0x0006_0004_0002_0000);
            let high = _mm512_srlv_epi16(bytes_words(eight_bytes(p.add(66))), by_two);
            let high = _mm512_slli_epi16::<8>(_mm512_and_si512(high, _mm512_set1_epi16(3)));
            LookedUp { values: entries(&IQ2_S, _mm512_or_si512(low, high)), signs: sign_bytes(p.add(34)) }
        }
    }
    }
}

impl CodebookFormat for Iq3Xxs {
    type Tables = [__m512i; 8];
    const TOO_LARGE: i16 = 0;

    avx512_bytes! {
    #[inline]
    unsafe fn tables() -> [__m512i; 8] {
        vectors(&IQ3_XXS_PACKED)
    }
    }

    avx512_bytes! {
    #[inline]
    unsafe fn values(p: *const u8, book: &[__m512i; 8]) -> LookedUp {
        // SAFETY: the caller's block of 98 bytes: 64 of indices and 32 of signs after two.
        let (v, bits) = unsafe { (load(p.add(2)), _mm512_cvtepu32_epi64(_mm256_loadu_si256(p.add(66).cast()))) };
        let words = [0, 1].map(|part| of_256(book, words_of(v, part)));
        LookedUp { values: four_bits(words, IQ3_XXS_LEVELS), signs: even_signs(bits, 0, 7) }
    }
    }
}

impl CodebookFormat for Iq3S {
    type Tables = [__m512i; 16];
    const TOO_LARGE: i16 = 0;

    avx512_bytes! {
    #[inline]
    unsafe fn tables() -> [__m512i; 16] {
        vectors(&IQ3_S_PACKED)
    }
    }

    avx512_bytes! {
    #[inline]
    unsafe fn values(p: *const u8, book: &[__m512i; 16]) -> LookedUp {
        // SAFETY: the caller's block of 110 bytes: 64 of indices, 8 of high bits, 32 of signs after two.
        let (v, high, signs) =
            unsafe { (load(p.add(2)), p.add(66).cast::<u64>().read_unaligned(), sign_bytes(p.add(74))) };
        let words = [0, 1].map(|part| {
            let ninth = _pext_u64(high, 0x0f0f_0f0f_0f0f_0f0f << (4 * part)) as u32;
            of_512(book, words_of(v, part), ninth)
        });
        LookedUp { values: four_bits(words, IQ3_S_LEVELS), signs }
    }
    }
}

avx512_bytes! {
/// The lowest byte of every quadword in its words.
#[inline]
fn bytes_words(v: __m512i) -> __m512i {
    _mm512_shuffle_epi8(v, _mm512_broadcast_i32x4(_mm_set_epi64x(
        0x8008_8008_8008_8008_u64 as i64,
        0x8000_8000_8000_8000_u64 as i64,
    )))
}
}

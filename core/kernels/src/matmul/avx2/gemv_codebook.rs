//! Products of one row or few: the codebook formats (IQ1, IQ2, IQ3) and the ternary formats.

use std::arch::x86_64::*;

use super::gemv::{ActivationPanel, Avx2GemvFormat, add_products, float, half, load, spread};
use super::gemv_lanes::WidePanelSums;
use crate::blocks::{
    EVEN_MASKS, IQ1_TIMES_8, IQ2_S, IQ2_XS, IQ2_XXS, IQ3_S, IQ3_XXS, Iq1M, Iq1S, Iq2S, Iq2Xs, Iq2Xxs, Iq3S,
    Iq3Xxs, Tq1_0, Tq2_0,
};
use crate::isa::avx2;

/// The number at `at`.
///
/// # Safety
/// It is readable.
#[inline(always)]
unsafe fn read<T>(p: *const u8, at: usize) -> T {
    // SAFETY: the promise of the caller.
    unsafe { p.add(at).cast::<T>().read_unaligned() }
}

avx2! {
/// Four times eight bytes.
#[inline]
fn eights(v: [u64; 4]) -> __m256i {
    _mm256_setr_epi64x(v[0] as i64, v[1] as i64, v[2] as i64, v[3] as i64)
}
}

avx2! {
/// Adds the products of 32 positive values with the values `at` of each panel, times `scales`; values whose byte of
/// `minus` has all bits set count as negative.
///
/// # Safety
/// The panels are readable.
#[inline]
unsafe fn add_signed<const T: usize>(
    totals: &mut [__m256i; T],
    (q, minus): (__m256i, __m256i),
    (x, at): (&[ActivationPanel; T], usize),
    scales: __m256i,
) {
    let sign = _mm256_or_si256(minus, _mm256_set1_epi8(1));
    for (total, x) in totals.iter_mut().zip(x) {
        // SAFETY: the promise of the caller.
        let x = unsafe { load(x.values.add(at)) };
        let pairs = _mm256_maddubs_epi16(q, _mm256_sign_epi8(x, sign));
        *total = _mm256_add_epi32(*total, _mm256_madd_epi16(pairs, scales));
    }
}
}

avx2! {
/// Bit `i` of the dword as all bits of byte `i`.
#[inline]
fn masks(bits: u32) -> __m256i {
    let ones = 0x0101_0101_0101_0101;
    let bytes = _mm256_setr_epi64x(0, ones, 2 * ones, 3 * ones);
    let own = _mm256_set1_epi64x(0x8040_2010_0804_0201_u64 as i64);
    let bits = _mm256_shuffle_epi8(_mm256_set1_epi32(bits as i32), bytes);
    _mm256_cmpeq_epi8(_mm256_and_si256(bits, own), own)
}
}

/// The masks of four times seven sign bits; an eighth bit makes the number even.
#[inline(always)]
fn even_masks(bits: u32) -> [u64; 4] {
    [0, 7, 14, 21].map(|shift| EVEN_MASKS[(bits >> shift & 127) as usize])
}

avx2! {
/// Odd numbers `2 n + 1` in 16 bits, of sixteen bytes `n`.
#[inline]
fn odd(n: __m128i) -> __m256i {
    let n = _mm256_cvtepu8_epi16(n);
    _mm256_add_epi16(_mm256_add_epi16(n, n), _mm256_set1_epi16(1))
}
}

avx2! {
/// The low nibbles of eight bytes, then the high ones.
#[inline]
fn nibbles(bytes: u64) -> __m128i {
    _mm_and_si128(_mm_set_epi64x((bytes >> 4) as i64, bytes as i64), _mm_set1_epi8(15))
}
}

/// Integer sums of eight groups of 32 with a scale each: `group` returns a group's values and signs, as for `add_signed`,
/// and its scale.
macro_rules! sums_of_groups {
    ($x:expr, $group:expr) => {{
        let mut totals = [_mm256_setzero_si256(); T];
        for g in 0..8 {
            let (q, minus, scale): (__m256i, __m256i, i16) = $group(g);
            add_signed(&mut totals, (q, minus), ($x, 32 * g), _mm256_set1_epi16(scale));
        }
        totals
    }};
}

impl Avx2GemvFormat for Iq2Xxs {
    type Parts = WidePanelSums<false>;

    avx2! {
    #[inline]
    unsafe fn panel<const T: usize>(
        p: *const u8,
        x: &[ActivationPanel; T],
        parts: &mut [Self::Parts; T],
        lane: usize,
    ) {
        // SAFETY: the caller promises a block of 66 bytes and the panel.
        unsafe {
            let totals = sums_of_groups!(x, |g: usize| {
                let (index, bits) = (read::<u32>(p, 2 + 8 * g), read::<u32>(p, 6 + 8 * g));
                let q = eights(index.to_le_bytes().map(|i| IQ2_XXS[usize::from(i)]));
                (q, eights(even_masks(bits)), 1 + 2 * (bits >> 28) as i16)
            });
            WidePanelSums::leave(parts, lane, totals, half(p) * 0.125);
        }
    }
    }
}

impl Avx2GemvFormat for Iq2Xs {
    type Parts = WidePanelSums<false>;

    avx2! {
    #[inline]
    unsafe fn panel<const T: usize>(
        p: *const u8,
        x: &[ActivationPanel; T],
        parts: &mut [Self::Parts; T],
        lane: usize,
    ) {
        // SAFETY: the caller promises a block of 74 bytes and the panel.
        unsafe {
            let scales = odd(nibbles(read::<u64>(p, 66)));
            let mut totals = [_mm256_setzero_si256(); T];
            for g in 0..8 {
                let four = read::<u64>(p, 2 + 8 * g);
                let words = [0, 16, 32, 48].map(|shift| (four >> shift) as u16);
                let q = eights(words.map(|word| IQ2_XS[usize::from(word & 511)]));
                let minus = eights(words.map(|word| EVEN_MASKS[usize::from(word >> 9)]));
                add_signed(&mut totals, (q, minus), (x, 32 * g), spread(scales, g));
            }
            WidePanelSums::leave(parts, lane, totals, half(p) * 0.125);
        }
    }
    }
}

impl Avx2GemvFormat for Iq2S {
    type Parts = WidePanelSums<false>;

    avx2! {
    #[inline]
    unsafe fn panel<const T: usize>(
        p: *const u8,
        x: &[ActivationPanel; T],
        parts: &mut [Self::Parts; T],
        lane: usize,
    ) {
        // SAFETY: the caller promises a block of 82 bytes and the panel.
        unsafe {
            let scales = odd(nibbles(read::<u64>(p, 74)));
            let mut totals = [_mm256_setzero_si256(); T];
            for g in 0..8 {
                let (low, high) = (read::<u32>(p, 2 + 4 * g), usize::from(read::<u8>(p, 66 + g)));
                let index = |i: usize| (low >> (8 * i) & 255) as usize | (high << (8 - 2 * i) & 0x300);
                let q = eights([0, 1, 2, 3].map(|i| IQ2_S[index(i)]));
                let minus = masks(read::<u32>(p, 34 + 4 * g));
                add_signed(&mut totals, (q, minus), (x, 32 * g), spread(scales, g));
            }
            WidePanelSums::leave(parts, lane, totals, half(p) * 0.125);
        }
    }
    }
}

avx2! {
/// Eight entries of four bytes of a codebook.
///
/// # Safety
/// The indices are within the codebook.
#[inline]
unsafe fn entries(book: &[u32], index: __m256i) -> __m256i {
    // SAFETY: the promise of the caller.
    unsafe { _mm256_i32gather_epi32::<4>(book.as_ptr().cast(), index) }
}
}

impl Avx2GemvFormat for Iq3Xxs {
    type Parts = WidePanelSums<false>;

    avx2! {
    #[inline]
    unsafe fn panel<const T: usize>(
        p: *const u8,
        x: &[ActivationPanel; T],
        parts: &mut [Self::Parts; T],
        lane: usize,
    ) {
        // SAFETY: the caller promises a block of 98 bytes and the panel; the book has 256 entries.
        unsafe {
            let totals = sums_of_groups!(x, |g: usize| {
                let bits = read::<u32>(p, 66 + 4 * g);
                let q = entries(&IQ3_XXS, _mm256_cvtepu8_epi32(_mm_loadl_epi64(p.add(2 + 8 * g).cast())));
                (q, eights(even_masks(bits)), 1 + 2 * (bits >> 28) as i16)
            });
            WidePanelSums::leave(parts, lane, totals, half(p) * 0.25);
        }
    }
    }
}

impl Avx2GemvFormat for Iq3S {
    type Parts = WidePanelSums<false>;

    avx2! {
    #[inline]
    unsafe fn panel<const T: usize>(
        p: *const u8,
        x: &[ActivationPanel; T],
        parts: &mut [Self::Parts; T],
        lane: usize,
    ) {
        let (left, bit) = (_mm256_setr_epi32(8, 7, 6, 5, 4, 3, 2, 1), _mm256_set1_epi32(256));
        // SAFETY: the caller promises a block of 110 bytes and the panel; the book has 512 entries.
        unsafe {
            let totals = sums_of_groups!(x, |g: usize| {
                let high = _mm256_set1_epi32(i32::from(read::<u8>(p, 66 + g)));
                let high = _mm256_and_si256(_mm256_sllv_epi32(high, left), bit);
                let low = _mm256_cvtepu8_epi32(_mm_loadl_epi64(p.add(2 + 8 * g).cast()));
                let q = entries(&IQ3_S, _mm256_or_si256(low, high));
                let scale = read::<u8>(p, 106 + g / 2) >> (4 * (g % 2)) & 15;
                (q, masks(read::<u32>(p, 74 + 4 * g)), 1 + 2 * i16::from(scale))
            });
            WidePanelSums::leave(parts, lane, totals, half(p));
        }
    }
    }
}

impl Avx2GemvFormat for Iq1S {
    type Parts = WidePanelSums<false>;

    avx2! {
    #[inline]
    unsafe fn panel<const T: usize>(
        p: *const u8,
        x: &[ActivationPanel; T],
        parts: &mut [Self::Parts; T],
        lane: usize,
    ) {
        // The entries of the codebook are -8, 0 and 8; with 8 added they are not negative.
        let eight = _mm256_set1_epi8(8);
        // SAFETY: the caller promises a block of 50 bytes and the panel.
        unsafe {
            let mut totals = [_mm256_setzero_si256(); T];
            for g in 0..8 {
                let (low, word) = (read::<u32>(p, 2 + 4 * g), usize::from(read::<u16>(p, 34 + 2 * g)));
                let index = |i: usize| (low >> (8 * i) & 255) as usize | (word >> (3 * i) & 7) << 8;
                let q = _mm256_add_epi8(eights([0, 1, 2, 3].map(|i| IQ1_TIMES_8[index(i)])), eight);
                let scale = _mm256_set1_epi16(1 + 2 * (word >> 12 & 7) as i16);
                add_products(&mut totals, q, (x, 32 * g), scale);
            }
            // A group's shift is 1 or, if the top bit is set, -1; with the 8 from above -7 or -9 remains to be added.
            let words = _mm_loadu_si128(p.add(34).cast());
            let scale = _mm_and_si128(_mm_srli_epi16::<11>(words), _mm_set1_epi16(14));
            let scale = _mm_add_epi16(scale, _mm_set1_epi16(1));
            let shift = _mm_add_epi16(_mm_slli_epi16::<1>(_mm_srai_epi16::<15>(words)), _mm_set1_epi16(-7));
            let factors = _mm_mullo_epi16(scale, shift);
            for (total, x) in totals.iter_mut().zip(x) {
                let sums = _mm_loadu_si128((&raw const (*x.meta).sum32).cast());
                *total = _mm256_add_epi32(*total, _mm256_zextsi128_si256(_mm_madd_epi16(factors, sums)));
            }
            WidePanelSums::leave(parts, lane, totals, half(p) * 0.125);
        }
    }
    }
}

avx2! {
/// The sixteen 3-bit scales of four words: of the even groups, then of the odd ones.
#[inline]
fn three_bits(words: u64) -> __m256i {
    let spread = _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 0, 1, 2, 3, 2, 3, 4, 5, 4, 5, 6, 7, 6, 7));
    let words = _mm256_shuffle_epi8(_mm256_set1_epi64x(words as i64), spread);
    // Group g of a word: bits 3 g to 3 g + 2, to bits 9 to 11.
    let (even, odd) = (_mm_set1_epi32(8 << 16 | 512), _mm_set1_epi32(1 << 16 | 64));
    let up = _mm256_mullo_epi16(words, _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(even), odd));
    let scale = _mm256_and_si256(_mm256_srli_epi16::<8>(up), _mm256_set1_epi16(14));
    _mm256_add_epi16(scale, _mm256_set1_epi16(1))
}
}

avx2! {
/// Sixteen 16-bit numbers: the even ones, then the odd ones.
#[inline]
fn even_odd(v: __m256i) -> __m256i {
    let order = _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15));
    _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_shuffle_epi8(v, order))
}
}

impl Avx2GemvFormat for Iq1M {
    type Parts = WidePanelSums<false>;

    avx2! {
    #[inline]
    unsafe fn panel<const T: usize>(
        p: *const u8,
        x: &[ActivationPanel; T],
        parts: &mut [Self::Parts; T],
        lane: usize,
    ) {
        let ones = 0x0101_0101_0101_0101;
        // Each eight values have a nibble with the sign of their shift in its top bit.
        let (bytes, bit) = (
            _mm256_setr_epi64x(0, 0, ones, ones),
            _mm256_setr_epi64x(8 * ones, (128 * ones as u64) as i64, 8 * ones, (128 * ones as u64) as i64),
        );
        // SAFETY: the caller promises a block of 56 bytes and the panel.
        unsafe {
            let words = read::<u64>(p, 48);
            let scales = three_bits(words);
            // Values with 16 more.
            let mut totals = x.each_ref().map(|x| {
                let sums = even_odd(load((&raw const (*x.meta).sum16).cast::<i16>()));
                let less = _mm256_slli_epi32::<4>(_mm256_madd_epi16(scales, sums));
                _mm256_sub_epi32(_mm256_setzero_si256(), less)
            });
            for g in 0..8 {
                let (low, high) = (read::<u32>(p, 4 * g), usize::from(read::<u16>(p, 32 + 2 * g)));
                let index = |i: usize| (low >> (8 * i) & 255) as usize | (high >> (4 * i) & 7) << 8;
                let q = eights([0, 1, 2, 3].map(|i| IQ1_TIMES_8[index(i)]));
                let high = _mm256_shuffle_epi8(_mm256_set1_epi16(high as i16), bytes);
                let down = _mm256_cmpeq_epi8(_mm256_and_si256(high, bit), bit);
                let shift = _mm256_add_epi8(_mm256_add_epi8(down, down), _mm256_set1_epi8(17));
                add_products(&mut totals, _mm256_add_epi8(q, shift), (x, 32 * g), spread(scales, g));
            }
            let word = |i: usize| (words >> (16 * i)) as u16;
            let factor = word(0) >> 12 | word(1) >> 8 & 0xf0 | word(2) >> 4 & 0xf00 | word(3) & 0xf000;
            WidePanelSums::leave(parts, lane, totals, float(factor) * 0.125);
        }
    }
    }
}

avx2! {
/// The integer products of 256 values of -1, 0 and 1, stored plus 1, with each panel, in eight parts.
///
/// # Safety
/// The panels of activations.
#[inline]
unsafe fn ternary<const T: usize>(q: [__m256i; 8], x: &[ActivationPanel; T]) -> [__m256i; T] {
    x.each_ref().map(|x| {
        let mut pairs = _mm256_setzero_si256();
        for (g, q) in q.into_iter().enumerate() {
            // Eight sums of two products of up to 3 and 127 fit in 16 bits.
            // SAFETY: the promise of the caller.
            pairs = _mm256_add_epi16(pairs, _mm256_maddubs_epi16(q, unsafe { load(x.values.add(32 * g)) }));
        }
        // SAFETY: as above: eight sums.
        let sums = unsafe { _mm_loadu_si128((&raw const (*x.meta).sum32).cast()) };
        _mm256_sub_epi32(_mm256_madd_epi16(pairs, _mm256_set1_epi16(1)), _mm256_cvtepi16_epi32(sums))
    })
}
}

impl Avx2GemvFormat for Tq2_0 {
    type Parts = WidePanelSums<false>;

    avx2! {
    #[inline]
    unsafe fn panel<const T: usize>(
        p: *const u8,
        x: &[ActivationPanel; T],
        parts: &mut [Self::Parts; T],
        lane: usize,
    ) {
        let m2 = _mm256_set1_epi8(3);
        // SAFETY: the caller promises a block of 66 bytes and the panel.
        unsafe {
            let four = |v: __m256i| {
                let parts = [v, _mm256_srli_epi16::<2>(v), _mm256_srli_epi16::<4>(v), _mm256_srli_epi16::<6>(v)];
                parts.map(|v| _mm256_and_si256(v, m2))
            };
            let ([a, b, c, d], [e, f, g, h]) = (four(load(p)), four(load(p.add(32))));
            WidePanelSums::leave(parts, lane, ternary([a, b, c, d, e, f, g, h], x), half(p.add(64)));
        }
    }
    }
}

avx2! {
/// The first digits of bytes that hold fractions: `3 v / 256`, 0 to 2.
#[inline]
fn digits(v: __m256i) -> __m256i {
    let from = |least: u8| {
        let least = _mm256_set1_epi8(least as i8);
        _mm256_cmpeq_epi8(_mm256_max_epu8(v, least), v)
    };
    _mm256_abs_epi8(_mm256_add_epi8(from(86), from(171)))
}
}

impl Avx2GemvFormat for Tq1_0 {
    type Parts = WidePanelSums<false>;

    avx2! {
    #[inline]
    unsafe fn panel<const T: usize>(
        p: *const u8,
        x: &[ActivationPanel; T],
        parts: &mut [Self::Parts; T],
        lane: usize,
    ) {
        let thrice = |v| _mm256_add_epi8(_mm256_add_epi8(v, v), v);
        let thrice_half = |v| _mm_add_epi8(_mm_add_epi8(v, v), v);
        let join = |a, b| _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(a), b);
        // SAFETY: the caller promises a block of 54 bytes and the panel.
        unsafe {
            // Five digits of 32 bytes, five of 16, four of 4: each is the first digit after the byte was multiplied by
            // three.
            let mut q = [load(p); 8];
            for n in 1..5 {
                q[n] = thrice(q[n - 1]);
            }
            let mut sixteen = [_mm_loadu_si128(p.add(32).cast()); 5];
            for n in 1..5 {
                sixteen[n] = thrice_half(sixteen[n - 1]);
            }
            let mut four = [_mm_cvtsi32_si128(read::<i32>(p, 48)); 4];
            for n in 1..4 {
                four[n] = thrice_half(four[n - 1]);
            }
            let last = _mm_unpacklo_epi64(_mm_unpacklo_epi32(four[0], four[1]), _mm_unpacklo_epi32(four[2], four[3]));
            q[5] = join(sixteen[0], sixteen[1]);
            q[6] = join(sixteen[2], sixteen[3]);
            q[7] = join(sixteen[4], last);
            WidePanelSums::leave(parts, lane, ternary(q.map(|v| digits(v)), x), half(p.add(52)));
        }
    }
    }
}

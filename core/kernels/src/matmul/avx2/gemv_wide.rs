//! Products of one row or few: the K-quants and IQ4_XS.

use std::arch::x86_64::*;

use super::gemv::{ActivationPanel, Avx2GemvFormat, ByteTable, add_products, half, load, spread, words};
use super::gemv_lanes::WidePanelSums;
use crate::blocks::{IQ4_LEVELS, Iq4Xs, Q2K, Q3K, Q4K, Q5K, Q6K};
use crate::isa::avx2;

/// Of the bytes of scales 0 to 3, minima 0 to 3, scales 4 to 7, minima 4 to 7: the scales in 16 bits, then the minima.
static SCALES: [u8; 16] = [0, 128, 1, 128, 2, 128, 3, 128, 8, 128, 9, 128, 10, 128, 11, 128];
static MINIMA: [u8; 16] = [4, 128, 5, 128, 6, 128, 7, 128, 12, 128, 13, 128, 14, 128, 15, 128];
/// Sixteen bytes: the even ones, then the odd ones.
static EVEN_ODD: [u8; 16] = [0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15];
/// Broadcasts the lower halves of dwords.
static DWORDS: ByteTable<8> = words(4);

avx2! {
/// Shuffles 16 bytes by a table.
#[inline]
fn pick(v: __m128i, table: &[u8; 16]) -> __m128i {
    // SAFETY: 16 bytes.
    _mm_shuffle_epi8(v, unsafe { _mm_loadu_si128(table.as_ptr().cast()) })
}
}

avx2! {
/// The eight scales and minima of the twelve bytes at `p`, in the order of `SCALES`.
///
/// # Safety
/// Twelve readable bytes.
#[inline]
unsafe fn scale_bytes(p: *const u8) -> __m128i {
    // SAFETY: the promise of the caller.
    let (low, high) = unsafe { (p.cast::<u64>().read_unaligned(), p.add(8).cast::<u32>().read_unaligned()) };
    let high = u64::from(high);
    let first = low & 0x3f3f_3f3f_3f3f_3f3f;
    let nibbles = (high & 0x0f0f_0f0f) | ((high << 28) & 0x0f0f_0f0f_0000_0000);
    let second = nibbles | ((low >> 2) & 0x3030_3030_3030_3030);
    _mm_set_epi64x(second as i64, first as i64)
}
}

avx2! {
/// Stores the products and minima of a block of Q4_K or Q5_K whose 32 values of group `g` are `q(g / 2)[g % 2]`.
///
/// # Safety
/// A block that opens with d, dmin and twelve scale bytes; the panels of activations.
#[inline]
unsafe fn leave_pairs<const T: usize>(
    p: *const u8,
    q: impl Fn(usize) -> [__m256i; 2],
    x: &[ActivationPanel; T],
    (parts, lane): (&mut [WidePanelSums<true>; T], usize),
) {
    // SAFETY: the promise of the caller.
    unsafe {
        let bytes = scale_bytes(p.add(4));
        let scales = _mm256_broadcastsi128_si256(pick(bytes, &SCALES));
        let mut totals = [_mm256_setzero_si256(); T];
        for pair in 0..4 {
            for (i, q) in q(pair).into_iter().enumerate() {
                let g = 2 * pair + i;
                add_products(&mut totals, q, (x, 32 * g), spread(scales, g));
            }
        }
        WidePanelSums::leave(parts, lane, totals, half(p));
        let minima = pick(bytes, &MINIMA);
        let minima = x.each_ref().map(|x| {
            let sums = _mm_loadu_si128((&raw const (*x.meta).sum32).cast());
            _mm_madd_epi16(minima, sums)
        });
        WidePanelSums::leave_minima(parts, lane, minima, half(p.add(2)));
    }
}
}

impl Avx2GemvFormat for Q4K {
    type Parts = WidePanelSums<true>;

    avx2! {
    #[inline]
    unsafe fn panel<const T: usize>(
        p: *const u8,
        x: &[ActivationPanel; T],
        parts: &mut [Self::Parts; T],
        lane: usize,
    ) {
        let m4 = _mm256_set1_epi8(15);
        let q = |pair: usize| {
            // SAFETY: the caller promises a block of 144 bytes, of which the last 128 are nibbles.
            let v = unsafe { load(p.add(16 + 32 * pair)) };
            [_mm256_and_si256(v, m4), _mm256_and_si256(_mm256_srli_epi16::<4>(v), m4)]
        };
        // SAFETY: the promise of the caller.
        unsafe { leave_pairs(p, q, x, (parts, lane)) }
    }
    }
}

impl Avx2GemvFormat for Q5K {
    type Parts = WidePanelSums<true>;

    avx2! {
    #[inline]
    unsafe fn panel<const T: usize>(
        p: *const u8,
        x: &[ActivationPanel; T],
        parts: &mut [Self::Parts; T],
        lane: usize,
    ) {
        let (m4, m16) = (_mm256_set1_epi8(15), _mm256_set1_epi8(16));
        // SAFETY: the caller promises a block of 176 bytes: 16 of scales, 32 of high bits, 128 of nibbles.
        let high = unsafe { load(p.add(16)) };
        let q = |pair: usize| {
            // SAFETY: as above.
            let v = unsafe { load(p.add(48 + 32 * pair)) };
            // Bits 2 pair and 2 pair + 1 of each byte, to bit 4.
            let bits = match pair {
                0 => [_mm256_slli_epi16::<4>(high), _mm256_slli_epi16::<3>(high)],
                1 => [_mm256_slli_epi16::<2>(high), _mm256_slli_epi16::<1>(high)],
                2 => [high, _mm256_srli_epi16::<1>(high)],
                _ => [_mm256_srli_epi16::<2>(high), _mm256_srli_epi16::<3>(high)],
            };
            [(v, bits[0]), (_mm256_srli_epi16::<4>(v), bits[1])]
                .map(|(v, bits)| _mm256_or_si256(_mm256_and_si256(v, m4), _mm256_and_si256(bits, m16)))
        };
        // SAFETY: the promise of the caller.
        unsafe { leave_pairs(p, q, x, (parts, lane)) }
    }
    }
}

avx2! {
/// `2^SHIFT` times the scales times the sums of 16 activations, negated: the initial integer sums of values plus
/// `2^SHIFT`.
///
/// # Safety
/// The panel of activations.
#[inline]
unsafe fn less<const SHIFT: i32>(scales: __m128i, x: &ActivationPanel) -> __m256i {
    // SAFETY: the promise of the caller.
    let sums = unsafe { load((&raw const (*x.meta).sum16).cast::<i16>()) };
    let whole = _mm256_slli_epi32::<SHIFT>(_mm256_madd_epi16(_mm256_cvtepi8_epi16(scales), sums));
    _mm256_sub_epi32(_mm256_setzero_si256(), whole)
}
}

avx2! {
/// The same for each of the panels.
///
/// # Safety
/// The panels of activations.
#[inline]
unsafe fn less_of_each<const SHIFT: i32, const T: usize>(scales: __m128i, x: &[ActivationPanel; T]) -> [__m256i; T] {
    // SAFETY: the promise of the caller.
    x.each_ref().map(|x| unsafe { less::<SHIFT>(scales, x) })
}
}

impl Avx2GemvFormat for Q6K {
    type Parts = WidePanelSums<false>;

    avx2! {
    #[inline]
    unsafe fn panel<const T: usize>(
        p: *const u8,
        x: &[ActivationPanel; T],
        parts: &mut [Self::Parts; T],
        lane: usize,
    ) {
        let (m4, m48) = (_mm256_set1_epi8(15), _mm256_set1_epi8(48));
        // SAFETY: the caller promises a block of 210 bytes: 128 low, 64 high, 16 scales, d.
        unsafe {
            let bytes = _mm_loadu_si128(p.add(192).cast());
            let scales = _mm256_cvtepi8_epi16(pick(bytes, &EVEN_ODD));
            let mut totals = less_of_each::<5, T>(bytes, x);
            for n in 0..2 {
                let (a, b) = (load(p.add(64 * n)), load(p.add(64 * n + 32)));
                let high = load(p.add(128 + 32 * n));
                let groups = [
                    (a, _mm256_slli_epi16::<4>(high)),
                    (b, _mm256_slli_epi16::<2>(high)),
                    (_mm256_srli_epi16::<4>(a), high),
                    (_mm256_srli_epi16::<4>(b), _mm256_srli_epi16::<2>(high)),
                ];
                for (i, (low, high)) in groups.into_iter().enumerate() {
                    let q = _mm256_or_si256(_mm256_and_si256(low, m4), _mm256_and_si256(high, m48));
                    let n = 4 * n + i;
                    add_products(&mut totals, q, (x, 32 * n), spread(scales, n));
                }
            }
            WidePanelSums::leave(parts, lane, totals, half(p.add(208)));
        }
    }
    }
}

avx2! {
/// The two bits of each of 32 bytes that belong to the `n`th 32 of four, and six more bits.
#[inline]
fn shifted(v: __m256i, n: usize) -> __m256i {
    match n {
        0 => v,
        1 => _mm256_srli_epi16::<2>(v),
        2 => _mm256_srli_epi16::<4>(v),
        _ => _mm256_srli_epi16::<6>(v),
    }
}
}

impl Avx2GemvFormat for Q2K {
    type Parts = WidePanelSums<true>;

    avx2! {
    #[inline]
    unsafe fn panel<const T: usize>(
        p: *const u8,
        x: &[ActivationPanel; T],
        parts: &mut [Self::Parts; T],
        lane: usize,
    ) {
        let (m2, m4) = (_mm256_set1_epi8(3), _mm_set1_epi8(15));
        // SAFETY: the caller promises a block of 84 bytes: 16 scales and minima, 64 of values, d, dmin.
        unsafe {
            let bytes = _mm_loadu_si128(p.cast());
            let scales = _mm256_cvtepu8_epi16(pick(_mm_and_si128(bytes, m4), &EVEN_ODD));
            let mut totals = [_mm256_setzero_si256(); T];
            for four in 0..2 {
                let v = load(p.add(16 + 32 * four));
                for n in 0..4 {
                    let (q, n) = (_mm256_and_si256(shifted(v, n), m2), 4 * four + n);
                    add_products(&mut totals, q, (x, 32 * n), spread(scales, n));
                }
            }
            WidePanelSums::leave(parts, lane, totals, half(p.add(80)));
            let minima = _mm256_cvtepu8_epi16(_mm_and_si128(_mm_srli_epi16::<4>(bytes), m4));
            let minima = x.each_ref().map(|x| {
                let minima = _mm256_madd_epi16(minima, load((&raw const (*x.meta).sum16).cast::<i16>()));
                _mm_add_epi32(_mm256_castsi256_si128(minima), _mm256_extracti128_si256::<1>(minima))
            });
            WidePanelSums::leave_minima(parts, lane, minima, half(p.add(82)));
        }
    }
    }
}

avx2! {
/// The sixteen 6-bit scales, less 32, of the twelve bytes at `p`, in bytes.
///
/// # Safety
/// Twelve readable bytes.
#[inline]
unsafe fn six_bits(p: *const u8) -> __m128i {
    // SAFETY: the promise of the caller.
    let (low, high) = unsafe { (p.cast::<u64>().read_unaligned(), p.add(8).cast::<u32>().read_unaligned()) };
    let nibbles = _mm_set_epi64x((low >> 4) as i64, low as i64);
    let high = _mm_srlv_epi32(_mm_set1_epi32(high as i32), _mm_setr_epi32(0, 2, 4, 6));
    let high = _mm_slli_epi16::<4>(_mm_and_si128(high, _mm_set1_epi8(3)));
    let bytes = _mm_or_si128(_mm_and_si128(nibbles, _mm_set1_epi8(15)), high);
    _mm_sub_epi8(bytes, _mm_set1_epi8(32))
}
}

impl Avx2GemvFormat for Q3K {
    type Parts = WidePanelSums<false>;

    avx2! {
    #[inline]
    unsafe fn panel<const T: usize>(
        p: *const u8,
        x: &[ActivationPanel; T],
        parts: &mut [Self::Parts; T],
        lane: usize,
    ) {
        let (m2, m4) = (_mm256_set1_epi8(3), _mm256_set1_epi8(4));
        // SAFETY: the caller promises a block of 110 bytes: 32 of high bits, 64 of two bits, 12 of scales, d.
        unsafe {
            let bytes = six_bits(p.add(96));
            let scales = _mm256_cvtepi8_epi16(pick(bytes, &EVEN_ODD));
            let high = load(p);
            let mut totals = less_of_each::<2, T>(bytes, x);
            for four in 0..2 {
                let v = load(p.add(32 + 32 * four));
                // Bit 4 four + n of each byte of the high bits, to bit 2.
                let bits = if four == 0 {
                    let twice = _mm256_add_epi8(high, high);
                    [_mm256_add_epi8(twice, twice), twice, high, _mm256_srli_epi16::<1>(high)]
                } else {
                    let high = _mm256_srli_epi16::<2>(high);
                    let two = _mm256_srli_epi16::<2>(high);
                    [high, _mm256_srli_epi16::<1>(high), two, _mm256_srli_epi16::<1>(two)]
                };
                for (n, bits) in bits.into_iter().enumerate() {
                    let low = _mm256_and_si256(shifted(v, n), m2);
                    let q = _mm256_or_si256(low, _mm256_and_si256(bits, m4));
                    let n = 4 * four + n;
                    add_products(&mut totals, q, (x, 32 * n), spread(scales, n));
                }
            }
            WidePanelSums::leave(parts, lane, totals, half(p.add(108)));
        }
    }
    }
}

impl Avx2GemvFormat for Iq4Xs {
    type Parts = WidePanelSums<false>;

    avx2! {
    #[inline]
    unsafe fn panel<const T: usize>(
        p: *const u8,
        x: &[ActivationPanel; T],
        parts: &mut [Self::Parts; T],
        lane: usize,
    ) {
        let m4 = _mm256_set1_epi8(15);
        // SAFETY: the caller promises a block of 136 bytes: d, 6 of scales, 128 of nibbles; a table of 16.
        unsafe {
            let levels = _mm256_broadcastsi128_si256(_mm_loadu_si128(IQ4_LEVELS.as_ptr().cast()));
            let high = _mm256_set1_epi32(i32::from(p.add(2).cast::<u16>().read_unaligned()));
            let low = _mm256_set1_epi32(p.add(4).cast::<i32>().read_unaligned());
            // The even groups, then the odd ones.
            let high = _mm256_srlv_epi32(high, _mm256_setr_epi32(0, 4, 8, 12, 2, 6, 10, 14));
            let low = _mm256_srlv_epi32(low, _mm256_setr_epi32(0, 8, 16, 24, 4, 12, 20, 28));
            let high = _mm256_slli_epi32::<4>(_mm256_and_si256(high, _mm256_set1_epi32(3)));
            let scales = _mm256_or_si256(_mm256_and_si256(low, _mm256_set1_epi32(15)), high);
            let scales = _mm256_sub_epi32(scales, _mm256_set1_epi32(32));
            let mut totals = [_mm256_setzero_si256(); T];
            for n in 0..4 {
                let v = load(p.add(8 + 32 * n));
                let q = [_mm256_and_si256(v, m4), _mm256_and_si256(_mm256_srli_epi16::<4>(v), m4)];
                let at = 128 * (n / 2) + 32 * (n % 2);
                let scale = _mm256_shuffle_epi8(scales, load(DWORDS.0[n].as_ptr()));
                for (i, q) in q.into_iter().enumerate() {
                    let q = _mm256_shuffle_epi8(levels, q);
                    let magnitude = _mm256_abs_epi8(q);
                    for (total, x) in totals.iter_mut().zip(x) {
                        let x = load(x.halved.add(at + 64 * i));
                        let pairs = _mm256_maddubs_epi16(magnitude, _mm256_sign_epi8(x, q));
                        *total = _mm256_add_epi32(*total, _mm256_madd_epi16(pairs, scale));
                    }
                }
            }
            WidePanelSums::leave(parts, lane, totals, half(p));
        }
    }
    }
}

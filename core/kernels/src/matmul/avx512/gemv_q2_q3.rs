//! Dot products of one row: Q2_K and Q3_K.

use std::arch::x86_64::*;

use super::gemv::{ActivationPanels, GemvFormat, half, load};
use super::gemv_panels::{WideMinParts, WideParts, add_products};
use crate::activations::ActivationLayout;
use crate::blocks::{Q2K, Q3K};
use crate::isa::avx512;

/// What both kernels need: which scale belongs to which 16-bit lane, and the shifts of two neighboring 32s.
#[derive(Clone, Copy)]
pub(super) struct ScaleLanes {
    index: [__m512i; 4],
    shift: [__m512i; 2],
}

impl ScaleLanes {
    avx512! {
    #[inline]
    pub(super) fn new() -> Self {
        // Lane n of 32 takes scale n / 8, plus 4 for every further 64 values.
        let lane = _mm512_srli_epi32::<2>(_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
        let lane = _mm512_or_si512(lane, _mm512_slli_epi32::<16>(lane));
        let both = |low, high| _mm512_inserti64x4::<1>(_mm512_set1_epi16(low), _mm256_set1_epi16(high));
        ScaleLanes {
            index: [0, 4, 8, 12].map(|n| _mm512_add_epi16(lane, _mm512_set1_epi16(n))),
            shift: [both(0, 2), both(4, 6)],
        }
    }
    }

    avx512! {
    /// Two bits each, from 64 bytes at `p`: the values in four vectors of 64.
    ///
    /// # Safety
    /// 64 readable bytes.
    #[inline]
    pub(super) unsafe fn two_bits(&self, p: *const u8) -> [__m512i; 4] {
        let mut q = [_mm512_setzero_si512(); 4];
        for (n, q) in q.iter_mut().enumerate() {
            // SAFETY: the promise of the caller.
            let v = unsafe { _mm512_broadcast_i64x4(_mm256_loadu_si256(p.add(32 * (n / 2)).cast())) };
            *q = _mm512_and_si512(_mm512_srlv_epi16(v, self.shift[n % 2]), _mm512_set1_epi8(3));
        }
        q
    }
    }

    avx512! {
    /// Adds the products of 256 values and activations, times the scale of each 16, to `total`.
    ///
    /// # Safety
    /// The panel of activations.
    #[inline]
    unsafe fn add(&self, total: __m512i, q: [__m512i; 4], scale: __m256i, x: &ActivationPanels) -> __m512i {
        let (mut total, scale) = (total, _mm512_castsi256_si512(scale));
        for (n, q) in q.into_iter().enumerate() {
            // SAFETY: the promise of the caller.
            let products = _mm512_maddubs_epi16(q, unsafe { load(x.values.add(64 * n)) });
            total = add_products(total, products, _mm512_permutexvar_epi16(self.index[n], scale));
        }
        total
    }
    }
}

impl GemvFormat for Q2K {
    type Blocks = Q2K;
    type Parts = WideMinParts;
    type Constants = ScaleLanes;
    const ORDER: Option<ActivationLayout> = None;

    avx512! {
    #[inline]
    unsafe fn constants() -> ScaleLanes {
        ScaleLanes::new()
    }
    }

    avx512! {
    #[inline]
    unsafe fn panel(p: *const u8, x: &ActivationPanels, lanes: &ScaleLanes, parts: &mut WideMinParts, lane: usize) {
        // SAFETY: the caller promises a block of 84 bytes and the panel.
        unsafe {
            let sum16 = _mm256_loadu_si256((&raw const (*x.meta).sum16).cast());
            let bytes = _mm_loadu_si128(p.cast());
            let m4 = _mm_set1_epi8(15);
            let scale = _mm256_cvtepu8_epi16(_mm_and_si128(bytes, m4));
            let min = _mm256_cvtepu8_epi16(_mm_and_si128(_mm_srli_epi16::<4>(bytes), m4));
            let total = lanes.add(_mm512_setzero_si512(), lanes.two_bits(p.add(16)), scale, x);
            let minima = _mm256_madd_epi16(min, sum16);
            let minima = _mm_add_epi32(_mm256_castsi256_si128(minima), _mm256_extracti128_si256::<1>(minima));
            parts.leave(lane, total, minima, p.add(80).cast::<i32>().read_unaligned());
        }
    }
    }
}

avx512! {
/// The sixteen 6-bit scales, less 32, of the twelve bytes at `p`.
///
/// # Safety
/// Twelve readable bytes.
#[inline]
unsafe fn six_bits(p: *const u8) -> __m256i {
    // SAFETY: the promise of the caller.
    let (low, high) = unsafe { (p.cast::<u64>().read_unaligned(), p.add(8).cast::<u32>().read_unaligned()) };
    let nibbles = _mm_set_epi64x((low >> 4) as i64, low as i64);
    let high = _mm_srlv_epi32(_mm_set1_epi32(high as i32), _mm_setr_epi32(0, 2, 4, 6));
    let high = _mm_slli_epi16::<4>(_mm_and_si128(high, _mm_set1_epi8(3)));
    let bytes = _mm_or_si128(_mm_and_si128(nibbles, _mm_set1_epi8(15)), high);
    _mm256_cvtepi8_epi16(_mm_sub_epi8(bytes, _mm_set1_epi8(32)))
}
}

/// Constants of the Q3_K kernel.
#[derive(Clone, Copy)]
pub(super) struct ThreeBits {
    lanes: ScaleLanes,
    /// Bit 2 n of the high bits for the lower 32 values of vector n, bit 2 n + 1 for the upper ones.
    bits: [__m512i; 4],
}

impl GemvFormat for Q3K {
    type Blocks = Q3K;
    type Parts = WideParts;
    type Constants = ThreeBits;
    const ORDER: Option<ActivationLayout> = None;

    avx512! {
    #[inline]
    unsafe fn constants() -> ThreeBits {
        let bits = [0u32, 2, 4, 6].map(|n| {
            _mm512_inserti64x4::<1>(_mm512_set1_epi8((1u8 << n) as i8), _mm256_set1_epi8((2u8 << n) as i8))
        });
        ThreeBits { lanes: ScaleLanes::new(), bits }
    }
    }

    avx512! {
    #[inline]
    unsafe fn panel(p: *const u8, x: &ActivationPanels, three: &ThreeBits, parts: &mut WideParts, lane: usize) {
        let four = _mm512_set1_epi8(4);
        // SAFETY: the caller promises a block of 110 bytes and the panel.
        unsafe {
            let sum16 = _mm256_loadu_si256((&raw const (*x.meta).sum16).cast());
            let scale = six_bits(p.add(96));
            let high = _mm512_broadcast_i64x4(_mm256_loadu_si256(p.cast()));
            let mut q = three.lanes.two_bits(p.add(32));
            for (q, bits) in q.iter_mut().zip(three.bits) {
                *q = _mm512_mask_add_epi8(*q, _mm512_test_epi8_mask(high, bits), *q, four);
            }
            // The values are q - 4; integers, so exact.
            let offset = _mm256_slli_epi32::<2>(_mm256_madd_epi16(scale, sum16));
            let start = _mm512_sub_epi32(_mm512_setzero_si512(), _mm512_zextsi256_si512(offset));
            parts.leave(lane, three.lanes.add(start, q, scale, x), half(p.add(108)));
        }
    }
    }
}

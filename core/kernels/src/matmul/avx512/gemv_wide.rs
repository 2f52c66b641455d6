//! Dot products of one row: Q4_K, Q5_K, Q6_K and IQ4_XS.

use std::arch::x86_64::*;

use super::gemv::{ActivationPanels, GemvFormat, half, load};
use super::gemv_panels::{WideMinParts, WideParts, add_products};
use crate::activations::ActivationLayout;
use crate::blocks::{IQ4_LEVELS, Iq4Xs, Q4K, Q5K, Q6K};
use crate::isa::avx512;

/// A byte shuffle that broadcasts scale bytes to 16-bit lanes: `low` to the lower 32 bytes, `high` to the rest.
const fn spread(low: u8, high: u8) -> [u8; 64] {
    let mut r = [0x80; 64];
    let mut i = 0;
    while i < 64 {
        r[i] = if i < 32 { low } else { high };
        i += 2;
    }
    r
}

/// The order of unpacked scales in 16 bytes: scales 0 to 3, minima 0 to 3, scales 4 to 7, minima 4 to 7. One shuffle
/// per 64 values, in the order 0 2 | 1 3 | 4 6 | 5 7.
static SCALES: [[u8; 64]; 4] = [spread(0, 2), spread(1, 3), spread(8, 10), spread(9, 11)];
static MINIMA: [u8; 16] = [4, 128, 5, 128, 6, 128, 7, 128, 12, 128, 13, 128, 14, 128, 15, 128];

/// Which of the twelve bytes, by how much to shift them right as dwords, and with which mask, once for the lower bits
/// and once for the upper ones: the first eight bytes have six bits of the scales and minima 0 to 3 and the upper two
/// of 4 to 7, the last four have the lower four of these.
static SIX_BYTES: [u8; 32] = [
    0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7, //
    128, 128, 128, 128, 128, 128, 128, 128, 8, 9, 10, 11, 8, 9, 10, 11,
];
static SIX_SHIFTS: [u32; 8] = [0, 0, 2, 2, 0, 0, 0, 4];
static SIX_MASKS: [u32; 8] =
    [0x3f3f_3f3f, 0x3f3f_3f3f, 0x3030_3030, 0x3030_3030, 0, 0, 0x0f0f_0f0f, 0x0f0f_0f0f];

/// Constants of the Q4_K and Q5_K kernels.
#[derive(Clone, Copy)]
pub(super) struct Shuffles {
    scales: [__m512i; 4],
    minima: __m128i,
    six: [__m256i; 3],
}

impl Shuffles {
    avx512! {
    #[inline]
    fn new() -> Self {
        // SAFETY: tables of 64 and 16 bytes.
        unsafe {
            Shuffles {
                scales: [load(&SCALES[0]), load(&SCALES[1]), load(&SCALES[2]), load(&SCALES[3])],
                minima: _mm_loadu_si128((&raw const MINIMA).cast()),
                six: [
                    _mm256_loadu_si256((&raw const SIX_BYTES).cast()),
                    _mm256_loadu_si256((&raw const SIX_SHIFTS).cast()),
                    _mm256_loadu_si256((&raw const SIX_MASKS).cast()),
                ],
            }
        }
    }
    }

    avx512! {
    /// The eight scales and minima of the twelve bytes at `p`, in the order above.
    ///
    /// # Safety
    /// Sixteen readable bytes.
    #[inline]
    unsafe fn scale_bytes(&self, p: *const u8) -> __m128i {
        let [bytes, shifts, masks] = self.six;
        // SAFETY: the promise of the caller.
        let v = _mm256_broadcastsi128_si256(unsafe { _mm_loadu_si128(p.cast()) });
        let v = _mm256_and_si256(_mm256_srlv_epi32(_mm256_shuffle_epi8(v, bytes), shifts), masks);
        _mm_or_si128(_mm256_castsi256_si128(v), _mm256_extracti128_si256::<1>(v))
    }
    }

    avx512! {
    /// Stores the products and minima of a block at `p` whose values are `q`, in the order 0 2 | 1 3 | 4 6 | 5 7.
    ///
    /// # Safety
    /// A block that opens with d, dmin and twelve scale bytes; the panel of activations.
    #[inline]
    unsafe fn leave(
        &self,
        p: *const u8,
        q: [__m512i; 4],
        x: &ActivationPanels,
        (parts, lane): (&mut WideMinParts, usize),
    ) {
        // SAFETY: the promise of the caller.
        unsafe {
            let bytes = self.scale_bytes(p.add(4));
            let scales = _mm512_broadcast_i32x4(bytes);
            let mut total = _mm512_setzero_si512();
            for (i, q) in q.into_iter().enumerate() {
                let products = _mm512_maddubs_epi16(q, load(x.ordered.add(64 * i)));
                let scale = _mm512_shuffle_epi8(scales, self.scales[i]);
                total = add_products(total, products, scale);
            }
            let sums = _mm_loadu_si128((&raw const (*x.meta).sum32).cast());
            let minima = _mm_madd_epi16(_mm_shuffle_epi8(bytes, self.minima), sums);
            parts.leave(lane, total, minima, p.cast::<i32>().read_unaligned());
        }
    }
    }
}

impl GemvFormat for Q4K {
    type Blocks = Q4K;
    type Parts = WideMinParts;
    type Constants = Shuffles;
    const ORDER: Option<ActivationLayout> = Some(ActivationLayout::Paired);

    avx512! {
    #[inline]
    unsafe fn constants() -> Shuffles {
        Shuffles::new()
    }
    }

    avx512! {
    #[inline]
    unsafe fn panel(p: *const u8, x: &ActivationPanels, shuffles: &Shuffles, parts: &mut WideMinParts, lane: usize) {
        let m4 = _mm512_set1_epi8(15);
        // SAFETY: the caller promises a block of 144 bytes and the panel.
        unsafe {
            let (a, b) = (load(p.add(16)), load(p.add(80)));
            let q = [
                _mm512_and_si512(a, m4),
                _mm512_and_si512(_mm512_srli_epi16::<4>(a), m4),
                _mm512_and_si512(b, m4),
                _mm512_and_si512(_mm512_srli_epi16::<4>(b), m4),
            ];
            shuffles.leave(p, q, x, (parts, lane));
        }
    }
    }
}

impl GemvFormat for Q5K {
    type Blocks = Q5K;
    type Parts = WideMinParts;
    type Constants = Shuffles;
    const ORDER: Option<ActivationLayout> = Some(ActivationLayout::Paired);

    avx512! {
    #[inline]
    unsafe fn constants() -> Shuffles {
        Shuffles::new()
    }
    }

    avx512! {
    #[inline]
    unsafe fn panel(p: *const u8, x: &ActivationPanels, shuffles: &Shuffles, parts: &mut WideMinParts, lane: usize) {
        let (m4, m16) = (_mm512_set1_epi8(15), _mm512_set1_epi8(16));
        let both = |low, high| _mm512_inserti64x4::<1>(_mm512_set1_epi16(low), _mm256_set1_epi16(high));
        let (l42, l31, r02, r13) = (both(4, 2), both(3, 1), both(0, 2), both(1, 3));
        // SAFETY: the caller promises a block of 176 bytes and the panel.
        unsafe {
            let high = _mm512_broadcast_i64x4(_mm256_loadu_si256(p.add(16).cast()));
            let (a, b) = (load(p.add(48)), load(p.add(112)));
            let (a4, b4) = (_mm512_srli_epi16::<4>(a), _mm512_srli_epi16::<4>(b));
            let join = |low, high| _mm512_or_si512(_mm512_and_si512(low, m4), _mm512_and_si512(high, m16));
            let q = [
                join(a, _mm512_sllv_epi16(high, l42)),
                join(a4, _mm512_sllv_epi16(high, l31)),
                join(b, _mm512_srlv_epi16(high, r02)),
                join(b4, _mm512_srlv_epi16(high, r13)),
            ];
            shuffles.leave(p, q, x, (parts, lane));
        }
    }
    }
}

/// Constants of the Q6_K kernel.
#[derive(Clone, Copy)]
pub(super) struct SixBits {
    left: __m512i,
    right: __m512i,
    /// Lane n of 32 takes scale n / 8, plus 4 for every further 64 values.
    index: [__m512i; 4],
}

impl GemvFormat for Q6K {
    type Blocks = Q6K;
    type Parts = WideParts;
    type Constants = SixBits;
    const ORDER: Option<ActivationLayout> = None;

    avx512! {
    #[inline]
    unsafe fn constants() -> SixBits {
        let lane = _mm512_srli_epi32::<2>(_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
        let lane = _mm512_or_si512(lane, _mm512_slli_epi32::<16>(lane));
        SixBits {
            left: _mm512_inserti64x4::<1>(_mm512_set1_epi16(4), _mm256_set1_epi16(2)),
            right: _mm512_inserti64x4::<1>(_mm512_set1_epi16(0), _mm256_set1_epi16(2)),
            index: [0, 4, 8, 12].map(|n| _mm512_add_epi16(lane, _mm512_set1_epi16(n))),
        }
    }
    }

    avx512! {
    #[inline]
    unsafe fn panel(p: *const u8, x: &ActivationPanels, bits: &SixBits, parts: &mut WideParts, lane: usize) {
        let (m4, m48) = (_mm512_set1_epi8(15), _mm512_set1_epi8(48));
        // SAFETY: the caller promises a block of 210 bytes and the panel.
        unsafe {
            let sum16 = _mm256_loadu_si256((&raw const (*x.meta).sum16).cast());
            let scale = _mm256_cvtepi8_epi16(_mm_loadu_si128(p.add(192).cast()));
            // The values are q - 32; integers, so exact.
            let offset = _mm256_slli_epi32::<5>(_mm256_madd_epi16(scale, sum16));
            let scale = _mm512_castsi256_si512(scale);
            let mut total = _mm512_sub_epi32(_mm512_setzero_si512(), _mm512_zextsi256_si512(offset));
            for n in 0..2 {
                let low = load(p.add(64 * n));
                let high = _mm512_broadcast_i64x4(_mm256_loadu_si256(p.add(128 + 32 * n).cast()));
                let first = _mm512_and_si512(_mm512_sllv_epi16(high, bits.left), m48);
                let second = _mm512_and_si512(_mm512_srlv_epi16(high, bits.right), m48);
                let q = [
                    _mm512_or_si512(_mm512_and_si512(low, m4), first),
                    _mm512_or_si512(_mm512_and_si512(_mm512_srli_epi16::<4>(low), m4), second),
                ];
                for (i, q) in q.into_iter().enumerate() {
                    let i = 2 * n + i;
                    let products = _mm512_maddubs_epi16(q, load(x.values.add(64 * i)));
                    let scale = _mm512_permutexvar_epi16(bits.index[i], scale);
                    total = add_products(total, products, scale);
                }
            }
            parts.leave(lane, total, half(p.add(208)));
        }
    }
    }
}

/// Constants of the IQ4_XS kernel.
#[derive(Clone, Copy)]
pub(super) struct Iq4Levels {
    /// The levels plus 128.
    table: __m512i,
    /// Lane n of 16 takes the scale of group n / 4, plus 4 in the second half.
    index: [__m512i; 2],
}

impl GemvFormat for Iq4Xs {
    type Blocks = Iq4Xs;
    type Parts = WideParts;
    type Constants = Iq4Levels;
    const ORDER: Option<ActivationLayout> = Some(ActivationLayout::Halved);

    avx512! {
    #[inline]
    unsafe fn constants() -> Iq4Levels {
        // SAFETY: the table has 16 bytes.
        let table = unsafe { _mm_loadu_si128(IQ4_LEVELS.as_ptr().cast()) };
        let lane = _mm512_srli_epi32::<2>(_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
        Iq4Levels {
            table: _mm512_xor_si512(_mm512_broadcast_i32x4(table), _mm512_set1_epi8(-128)),
            index: [lane, _mm512_add_epi32(lane, _mm512_set1_epi32(4))],
        }
    }
    }

    avx512! {
    #[inline]
    unsafe fn panel(p: *const u8, x: &ActivationPanels, levels: &Iq4Levels, parts: &mut WideParts, lane: usize) {
        let m4 = _mm512_set1_epi8(15);
        let by_two = _mm256_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14);
        let by_four = _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28);
        // SAFETY: the caller promises a block of 136 bytes and the panel.
        unsafe {
            let neg = _mm256_loadu_si256((&raw const (*x.meta).neg32).cast());
            let high = _mm256_set1_epi32(i32::from(p.add(2).cast::<u16>().read_unaligned()));
            let low = _mm256_set1_epi32(p.add(4).cast::<i32>().read_unaligned());
            let high = _mm256_and_si256(_mm256_srlv_epi32(high, by_two), _mm256_set1_epi32(3));
            let low = _mm256_and_si256(_mm256_srlv_epi32(low, by_four), _mm256_set1_epi32(15));
            let scale = _mm256_or_si256(low, _mm256_slli_epi32::<4>(high));
            let scale = _mm256_sub_epi32(scale, _mm256_set1_epi32(32));
            let scales = _mm512_castsi256_si512(scale);
            let mut total = _mm512_zextsi256_si512(_mm256_mullo_epi32(scale, neg));
            for (n, index) in levels.index.into_iter().enumerate() {
                let v = load(p.add(8 + 64 * n));
                let low = _mm512_shuffle_epi8(levels.table, _mm512_and_si512(v, m4));
                let high = _mm512_shuffle_epi8(levels.table, _mm512_and_si512(_mm512_srli_epi16::<4>(v), m4));
                let dot = _mm512_dpbusd_epi32(_mm512_setzero_si512(), low, load(x.ordered.add(128 * n)));
                let dot = _mm512_dpbusd_epi32(dot, high, load(x.ordered.add(128 * n + 64)));
                let scale = _mm512_permutexvar_epi32(index, scales);
                total = _mm512_add_epi32(total, _mm512_mullo_epi32(dot, scale));
            }
            parts.leave(lane, total, half(p));
        }
    }
    }
}

//! Dot products of one row: the ternary formats.

use std::arch::x86_64::*;

use super::gemv::{ActivationPanels, GemvFormat, half, load};
use super::gemv_codebook::{Blocks, CodebookProducts, twice};
use super::gemv_panels::WideParts;
use super::gemv_q2_q3::ScaleLanes;
use super::planes::{AlignedTable, Indices};
use crate::activations::ActivationLayout;
use crate::blocks::{Tq1_0, Tq2_0};
use crate::isa::{avx512, avx512_bytes};

avx512! {
/// Minus the sum of the values, in parts: the digits are one too large.
///
/// # Safety
/// The panel.
#[inline]
unsafe fn less(x: &ActivationPanels) -> __m512i {
    // SAFETY: the promise of the caller.
    let neg = unsafe { _mm256_loadu_si256((&raw const (*x.meta).neg32).cast()) };
    _mm512_zextsi256_si512(_mm256_srai_epi32::<7>(neg))
}
}

impl GemvFormat for Tq2_0 {
    type Blocks = Tq2_0;
    type Parts = WideParts;
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
    unsafe fn panel(p: *const u8, x: &ActivationPanels, lanes: &ScaleLanes, parts: &mut WideParts, lane: usize) {
        // SAFETY: the caller promises a block of 66 bytes and the panel.
        unsafe {
            let mut total = less(x);
            for (n, q) in lanes.two_bits(p).into_iter().enumerate() {
                total = _mm512_dpbusd_epi32(total, q, load(x.values.add(64 * n)));
            }
            parts.leave(lane, total, half(p.add(64)));
        }
    }
    }
}

impl GemvFormat for Tq1_0 {
    type Blocks = Tq1_0;
    type Parts = WideParts;
    type Constants = ();
    const ORDER: Option<ActivationLayout> = Some(ActivationLayout::Digits);

    avx512! {
    #[inline]
    unsafe fn constants() {}
    }

    avx512! {
    #[inline]
    unsafe fn panel(p: *const u8, x: &ActivationPanels, _: &(), parts: &mut WideParts, lane: usize) {
        let zero = _mm512_setzero_si512();
        let top = _mm512_set1_epi8(0xc0_u8 as i8);
        // SAFETY: the caller promises a block of 54 bytes and the panel, 320 values in this order.
        unsafe {
            let mut v = _mm512_maskz_loadu_epi8((1 << 52) - 1, p.cast());
            let mut total = zero;
            for n in 0..5 {
                // The digit is the upper byte of 3 v: the two upper bits of v minus its quarter, rounded up.
                let quarter = _mm512_avg_epu8(_mm512_avg_epu8(v, zero), zero);
                let digits = _mm512_and_si512(_mm512_sub_epi8(v, quarter), top);
                total = _mm512_dpbusd_epi32(total, digits, load(x.ordered.add(64 * n)));
                v = _mm512_add_epi8(_mm512_add_epi8(v, v), v);
            }
            // 64 times the digits so far.
            let total = _mm512_add_epi32(_mm512_srai_epi32::<6>(total), less(x));
            parts.leave(lane, total, half(p.add(52)));
        }
    }
    }
}

/// The digits of a byte of TQ1_0 after the first, two bits each.
static DIGITS: AlignedTable<256> = {
    let (mut table, mut byte) = ([0; 256], 0);
    while byte < 256 {
        let (mut v, mut n) = (byte * 3 % 256, 0);
        while n < 4 {
            table[byte] |= ((v * 3 / 256) << (2 * n)) as u8;
            (v, n) = (v * 3 % 256, n + 1);
        }
        byte += 1;
    }
    AlignedTable(table)
};

avx512_bytes! {
/// The products of the digits of one block: `v` are its bytes, `later` their digits after the first.
///
/// # Safety
/// The panel, in the order of the format.
#[inline]
unsafe fn digit_products(v: __m512i, later: __m512i, x: *const i8) -> __m512i {
    let zero = _mm512_setzero_si512();
    let of = |digits, mask: u8| _mm512_and_si512(digits, _mm512_set1_epi8(mask as i8));
    // SAFETY: the promise of the caller: 320 values.
    let x = |n: usize| unsafe { load(x.add(64 * n)) };
    // The first digit is the upper byte of 3 v: the two upper bits of v minus its quarter, rounded up.
    let quarter = _mm512_avg_epu8(_mm512_avg_epu8(v, zero), zero);
    let first = of(_mm512_sub_epi8(v, quarter), 0xc0);
    // 1, 4, 16 and 64 times digits.
    let one = _mm512_dpbusd_epi32(zero, of(later, 0x03), x(1));
    let four = _mm512_dpbusd_epi32(zero, of(later, 0x0c), x(2));
    let sixteen = _mm512_dpbusd_epi32(zero, of(later, 0x30), x(3));
    let most = _mm512_dpbusd_epi32(_mm512_dpbusd_epi32(zero, first, x(0)), of(later, 0xc0), x(4));
    _mm512_add_epi32(
        _mm512_add_epi32(one, _mm512_srai_epi32::<2>(four)),
        _mm512_add_epi32(_mm512_srai_epi32::<4>(sixteen), _mm512_srai_epi32::<6>(most)),
    )
}
}

impl CodebookProducts for Tq1_0 {
    type Blocks = Tq1_0;
    const ORDER: ActivationLayout = ActivationLayout::Digits;
    const TIMES: f32 = 1.0;

    #[inline(always)]
    unsafe fn factor(p: *const u8) -> u16 {
        // SAFETY: the caller's block of 54 bytes, which ends with it.
        unsafe { p.add(52).cast::<u16>().read_unaligned() }
    }

    avx512_bytes! {
    #[inline]
    unsafe fn products(blocks: &Blocks, x: [&ActivationPanels; 2]) -> [__m512i; 2] {
        [0, 1].map(|i| {
            // SAFETY: the caller's blocks, 52 bytes of digits each, and the panels.
            unsafe {
                let v = blocks[i].map(|p| _mm512_maskz_loadu_epi8((1 << 52) - 1, p.cast()));
                let later = DIGITS.look(&Indices::of_nine(v, [0; 2]));
                let [a, b] = [0, 1].map(|row| digit_products(v[row], later[row], x[i].ordered));
                let less = _mm512_srai_epi32::<7>(twice((&raw const (*x[i].meta).neg32).cast()));
                let total = _mm512_add_epi32(_mm512_shuffle_i64x2::<0x44>(a, b), _mm512_shuffle_i64x2::<0xee>(a, b));
                _mm512_add_epi32(total, less)
            }
        })
    }
    }
}

//! Dot products of one row: the ternary formats.

use std::arch::x86_64::*;

use super::one::{OneRow, Row, half, load};
use super::one_panels::WideParts;
use super::one_small::Lanes;
use crate::activations::Order;
use crate::blocks::{Tq1_0, Tq2_0};
use crate::isa::avx512;

avx512! {
/// Minus the sum of the values, in parts: the digits are one too large.
///
/// # Safety
/// The panel.
#[inline]
unsafe fn less(x: &Row) -> __m512i {
    // SAFETY: the promise of the caller.
    let neg = unsafe { _mm256_loadu_si256((&raw const (*x.meta).neg32).cast()) };
    _mm512_zextsi256_si512(_mm256_srai_epi32::<7>(neg))
}
}

impl OneRow for Tq2_0 {
    type Blocks = Tq2_0;
    type Parts = WideParts;
    type Constants = Lanes;
    const ORDER: Option<Order> = None;

    avx512! {
    #[inline]
    unsafe fn constants() -> Lanes {
        Lanes::new()
    }
    }

    avx512! {
    #[inline]
    unsafe fn panel(p: *const u8, x: &Row, lanes: &Lanes, parts: &mut WideParts, lane: usize) {
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

impl OneRow for Tq1_0 {
    type Blocks = Tq1_0;
    type Parts = WideParts;
    type Constants = ();
    const ORDER: Option<Order> = Some(Order::Digits);

    avx512! {
    #[inline]
    unsafe fn constants() {}
    }

    avx512! {
    #[inline]
    unsafe fn panel(p: *const u8, x: &Row, _: &(), parts: &mut WideParts, lane: usize) {
        let zero = _mm512_setzero_si512();
        let top = _mm512_set1_epi8(0xc0_u8 as i8);
        // SAFETY: the caller promises a block of 54 bytes and the panel, 320 values in this order.
        unsafe {
            let mut v = _mm512_maskz_loadu_epi8((1 << 52) - 1, p.cast());
            let mut total = zero;
            for n in 0..5 {
                // The digit is the upper byte of 3 v: the two upper bits of v less its quarter, rounded up.
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

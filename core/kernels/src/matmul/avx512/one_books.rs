//! Dot products of one row: the code-book formats.

use std::arch::x86_64::*;
use std::marker::PhantomData;

use super::books::{Books, Scales};
use super::one::{OneRow, Row, load};
use super::one_panels::{WideParts, add_products};
use crate::activations::Order;
use crate::isa::avx512_bytes;

/// The products of a code-book format; its functions want the features of `Avx512Bytes`.
pub(super) struct OneBook<F>(PhantomData<F>);

avx512_bytes! {
/// The sums of the values of every group of sixteen times its scale, in the lower half.
///
/// # Safety
/// The panel.
#[inline]
unsafe fn scaled_sums(scales: &Scales, x: &Row) -> __m512i {
    let [even, odd] = scales.words;
    let pairs = _mm512_cvtepi64_epi32(_mm512_mask_blend_epi16(0xaaaa_aaaa, even, odd));
    // SAFETY: the promise of the caller.
    let sums = unsafe { _mm256_loadu_si256((&raw const (*x.meta).sum16).cast()) };
    _mm512_zextsi256_si512(_mm256_madd_epi16(pairs, sums))
}
}

impl<F: Books> OneRow for OneBook<F> {
    type Blocks = F;
    type Parts = WideParts;
    type Constants = F::Tables;
    const ORDER: Option<Order> = Some(Order::Quartered);

    avx512_bytes! {
    #[inline]
    unsafe fn constants() -> F::Tables {
        // SAFETY: the caller's promise.
        unsafe { F::tables() }
    }
    }

    avx512_bytes! {
    #[inline]
    unsafe fn panel(p: *const u8, x: &Row, tables: &F::Tables, parts: &mut WideParts, lane: usize) {
        // SAFETY: the caller promises a block and the panel.
        unsafe {
            let (looked, scales) = (F::values(p, tables), F::scales(p));
            let mut total = _mm512_setzero_si512();
            for n in 0..4 {
                let v = load(x.ordered.add(64 * n));
                let v = _mm512_mask_sub_epi8(v, looked.signs[n], _mm512_setzero_si512(), v);
                let products = _mm512_maddubs_epi16(looked.values[n], v);
                total = add_products(total, products, scales.words[n / 2]);
            }
            if F::TOO_LARGE != 0 {
                let less = _mm512_mullo_epi32(scaled_sums(&scales, x), _mm512_set1_epi32(i32::from(F::TOO_LARGE)));
                total = _mm512_sub_epi32(total, less);
            }
            parts.leave(lane, total, scales.d);
        }
    }
    }
}

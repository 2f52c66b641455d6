//! Products of one row for every other format: unpacked to bytes first.

use std::arch::x86_64::*;

use super::gemv::{ActivationPanels, GemvFormat, load};
use super::gemv_panels::WideParts;
use super::tile_wide::UnpackWide;
use crate::activations::ActivationLayout;
use crate::blocks::{Format, SUPER, WideFormat};
use crate::isa::avx512;
use crate::matmul::unpacked::{IntegerScales, Unpacked};

avx512! {
/// Lane n of 16 takes the scale of the group that the `part`th 64 values have there.
#[inline]
fn lanes<F: Format>(part: i32) -> __m512i {
    let dword = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    if F::GROUP == 16 {
        _mm512_add_epi32(_mm512_srli_epi32::<2>(dword), _mm512_set1_epi32(4 * part))
    } else {
        _mm512_add_epi32(_mm512_srli_epi32::<3>(dword), _mm512_set1_epi32(2 * part))
    }
}
}

avx512! {
/// The products of the `part`th 64 values, four to a lane.
///
/// # Safety
/// All 256 values of the panel `x`.
#[inline]
unsafe fn dot<F: Format>(w: &Unpacked, x: &ActivationPanels, part: usize) -> __m512i {
    let starts = if F::GROUP == 16 { 0x1111 } else { 0x0101 };
    // SAFETY: 256 values on both sides; the sums of a `Meta`.
    unsafe {
        let neg = if F::GROUP == 16 {
            load((*x.meta).neg16.as_ptr())
        } else {
            _mm512_castsi256_si512(_mm256_loadu_si256((*x.meta).neg32.as_ptr().cast()))
        };
        let start = _mm512_maskz_permutexvar_epi32(starts, lanes::<F>(part as i32), neg);
        let q = _mm512_xor_si512(load(w.q.as_ptr().add(64 * part)), _mm512_set1_epi8(-128));
        _mm512_dpbusd_epi32(start, q, load(x.values.add(64 * part)))
    }
}
}

impl<F: WideFormat> GemvFormat for UnpackWide<F> {
    type Blocks = F;
    type Parts = WideParts;
    type Constants = ();
    const ORDER: Option<ActivationLayout> = None;

    avx512! {
    #[inline]
    unsafe fn constants() {}
    }

    avx512! {
    #[inline]
    unsafe fn panel(p: *const u8, x: &ActivationPanels, _: &(), parts: &mut Self::Parts, lane: usize) {
        const { assert!(!F::MIN, "a format that keeps no minima") }
        let mut w = Unpacked::ZERO;
        // SAFETY: the caller promises a block and the panel.
        unsafe {
            let block = std::slice::from_raw_parts(p, F::BYTES);
            w.fill::<F>(block);
            let whole = IntegerScales::of::<F>(block);
            let scale = _mm512_cvtepi16_epi32(_mm256_loadu_si256(whole.scale.as_ptr().cast()));
            let mut total = _mm512_setzero_si512();
            for part in 0..SUPER / 64 {
                let scale = _mm512_permutexvar_epi32(lanes::<F>(part as i32), scale);
                total = _mm512_add_epi32(total, _mm512_mullo_epi32(dot::<F>(&w, x, part), scale));
            }
            parts.leave(lane, total, whole.factors.d);
        }
    }
    }
}

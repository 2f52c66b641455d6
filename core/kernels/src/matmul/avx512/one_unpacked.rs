//! Dot products of one row for every other format: unpacked to bytes first.

use std::arch::x86_64::*;

use super::one::{Row, RowFormat, load};
use super::tile::Unpack;
use crate::blocks::{Format, SUPER};
use crate::isa::avx512;
use crate::matmul::prefetch::prefetch;
use crate::matmul::unpacked::Unpacked;

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
/// Adds the products of one panel.
///
/// # Safety
/// All 256 values of the panel `x`.
#[inline]
unsafe fn add<F: Format>(sum: __m512, w: &Unpacked, x: &Row) -> __m512 {
    let mut sum = sum;
    // SAFETY: 256 values on both sides; 16 scales and minima; the sums of a `Meta`.
    unsafe {
        let meta = &*x.meta;
        let twice = _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
        let d = _mm512_castps256_ps512(_mm256_loadu_ps(meta.d.as_ptr()));
        let d = if F::GROUP == 16 { _mm512_permutexvar_ps(twice, d) } else { d };
        let scale = _mm512_mul_ps(_mm512_loadu_ps(w.scale.as_ptr()), d);
        let neg = if F::GROUP == 16 {
            load(meta.neg16.as_ptr())
        } else {
            _mm512_castsi256_si512(_mm256_loadu_si256(meta.neg32.as_ptr().cast()))
        };
        let flip = _mm512_set1_epi8(if F::MIN { 0 } else { -128 });
        let starts = if F::GROUP == 16 { 0x1111 } else { 0x0101 };
        for part in 0..SUPER / 64 {
            let index = lanes::<F>(part as i32);
            let start =
                if F::MIN { _mm512_setzero_si512() } else { _mm512_maskz_permutexvar_epi32(starts, index, neg) };
            let q = _mm512_xor_si512(load(w.q.as_ptr().add(64 * part)), flip);
            let dot = _mm512_dpbusd_epi32(start, q, load(x.values.add(64 * part)));
            sum = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot), _mm512_permutexvar_ps(index, scale), sum);
        }
        if F::MIN {
            // Minima are at most eight in the formats of 32 and sixteen in those of 16.
            let total = if F::GROUP == 16 {
                let whole = _mm512_cvtepi16_epi32(_mm256_loadu_si256(meta.sum16.as_ptr().cast()));
                _mm512_mul_ps(_mm512_cvtepi32_ps(whole), d)
            } else {
                _mm512_zextps256_ps512(_mm256_loadu_ps(meta.dsum.as_ptr()))
            };
            sum = _mm512_fnmadd_ps(_mm512_loadu_ps(w.min.as_ptr()), total, sum);
        }
    }
    sum
}
}

impl<F: Format> RowFormat for Unpack<F> {
    type Blocks = F;

    avx512! {
    #[inline]
    unsafe fn dots(rows: [*const u8; 2], x: &Row) -> [f32; 2] {
        let mut sums = [_mm512_setzero_ps(); 2];
        let mut w = [Unpacked::ZERO; 2];
        for panel in 0..x.groups.div_ceil(8) {
            // SAFETY: the caller promises blocks for `x.groups` groups in both rows and padded activations.
            unsafe {
                let x = x.panel(panel);
                let bytes = x.groups.min(8) * 32 / F::LEN * F::BYTES;
                // Both rows are unpacked before either is read back: stores need time to arrive in the cache.
                for (row, w) in rows.into_iter().zip(&mut w) {
                    let blocks = row.add(panel * (SUPER / F::LEN) * F::BYTES);
                    prefetch(blocks, bytes);
                    w.fill::<F>(std::slice::from_raw_parts(blocks, bytes));
                }
                for (w, sum) in w.iter().zip(&mut sums) {
                    *sum = add::<F>(*sum, w, &x);
                }
            }
        }
        sums.map(|s| _mm512_reduce_add_ps(s))
    }
    }
}

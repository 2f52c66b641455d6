//! One row of activations: blocks are unpacked to bytes in the first-level cache, then multiplied.

use std::arch::x86_64::*;

use super::bytes::{correction, offset, pairs};
use super::unpack::fill;
use crate::activations::{Meta, Quantised};
use crate::blocks::{Format, SUPER};
use crate::isa::{Avx2, avx2};
use crate::matmul::prefetch::prefetch;
use crate::matmul::types::{Choice, Job, Kernel, Rounded};
use crate::matmul::unpacked::Unpacked;
use crate::memory::Scratch;

/// The kernel for a format.
pub(super) fn choose<F: Format>(_: Avx2) -> Choice<Rounded> {
    // SAFETY: the token is proof of the features; the function is for this format.
    Choice { kernel: unsafe { Kernel::new(F::QUANT, one_row::<F>) }, tile: 2 }
}

avx2! {
fn one_row<F: Format>(job: &mut Job<'_, Rounded>, _: &mut Scratch) {
    let x = job.x;
    let (w, tokens) = (job.w, job.tokens.len());
    let rows = w.rows();
    // Two rows in turn, half of the task's rows apart: neighbours would confuse the hardware's prefetching.
    let far = rows.div_ceil(2);
    for first in 0..far {
        let second = (first + far).min(rows - 1);
        let dots = two_rows::<F>([w.row(first), w.row(second)], x);
        for token in 0..tokens {
            job.out.store(token, first, &dots[..1]);
            job.out.store(token, second, &dots[1..]);
        }
    }
}
}

avx2! {
#[inline]
fn two_rows<F: Format>(rows: [&[u8]; 2], x: &Quantised) -> [f32; 2] {
    let panel_bytes = SUPER / F::LEN * F::BYTES;
    let mut sums = [_mm256_setzero_ps(); 2];
    let mut w = [Unpacked::ZERO; 2];
    for panel in 0..x.panels() {
        let (values, meta) = (x.values(panel, 0), x.meta(panel, 0));
        // Both rows are unpacked before either is read back: stores need time to arrive in the cache.
        for (row, w) in rows.iter().zip(&mut w) {
            let blocks = &row[panel * panel_bytes..((panel + 1) * panel_bytes).min(row.len())];
            prefetch(blocks.as_ptr(), blocks.len());
            fill::<F>(w, blocks);
        }
        for (w, sum) in w.iter().zip(&mut sums) {
            *sum = add::<F>(*sum, w, values, meta);
        }
    }
    sums.map(|s| {
        let s = _mm_add_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps::<1>(s));
        let s = _mm_add_ps(s, _mm_movehl_ps(s, s));
        _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)))
    })
}
}

avx2! {
/// Adds the products of one panel.
#[inline]
fn add<F: Format>(sum: __m256, w: &Unpacked, x: &[i8; SUPER], meta: &Meta) -> __m256 {
    let mut sum = sum;
    let (ones, plus) = (_mm256_set1_epi16(1), _mm256_set1_epi8(offset::<F>()));
    for g in 0..8 {
        // SAFETY: `32 g + 32 <= 256`.
        let (q, x) = unsafe {
            (_mm256_loadu_si256(w.q.as_ptr().add(32 * g).cast()), _mm256_loadu_si256(x.as_ptr().add(32 * g).cast()))
        };
        let dot = _mm256_madd_epi16(pairs::<F>(_mm256_add_epi8(q, plus), x), ones);
        if F::GROUP == 32 {
            let start = _mm256_zextsi128_si256(_mm_cvtsi32_si128(correction::<F>(meta.neg32[g])));
            let scale = _mm256_set1_ps(w.scale[g] * meta.d[g]);
            sum = _mm256_fmadd_ps(_mm256_cvtepi32_ps(_mm256_add_epi32(dot, start)), scale, sum);
        } else {
            let [a, b] = [2 * g, 2 * g + 1].map(|g| correction::<F>(meta.neg16[g]));
            let start = _mm256_setr_epi32(a, 0, 0, 0, b, 0, 0, 0);
            let [a, b] = [2 * g, 2 * g + 1].map(|h| _mm_set1_ps(w.scale[h] * meta.d[g]));
            let scale = _mm256_insertf128_ps::<1>(_mm256_castps128_ps256(a), b);
            sum = _mm256_fmadd_ps(_mm256_cvtepi32_ps(_mm256_add_epi32(dot, start)), scale, sum);
        }
    }
    if F::MIN {
        // SAFETY: eight minima and sums; for groups of 16 twice as many.
        unsafe {
            if F::GROUP == 32 {
                let min = _mm256_loadu_ps(w.min.as_ptr());
                sum = _mm256_fnmadd_ps(min, _mm256_loadu_ps(meta.dsum.as_ptr()), sum);
            } else {
                let d = _mm256_loadu_ps(meta.d.as_ptr());
                for half in 0..2 {
                    let total = _mm_loadu_si128(meta.sum16.as_ptr().add(8 * half).cast());
                    let total = _mm256_cvtepi32_ps(_mm256_cvtepi16_epi32(total));
                    let four = 4 * half as i32;
                    let which = _mm256_add_epi32(_mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3), _mm256_set1_epi32(four));
                    let total = _mm256_mul_ps(total, _mm256_permutevar8x32_ps(d, which));
                    sum = _mm256_fnmadd_ps(_mm256_loadu_ps(w.min.as_ptr().add(8 * half)), total, sum);
                }
            }
        }
    }
    sum
}
}

//! One row of activations: blocks are unpacked to bytes in the first-level cache, then multiplied.

use std::arch::aarch64::*;

use super::features::{dot, dotprod};
use crate::activations::{Meta, Quantised};
use crate::blocks::{Format, SUPER};
use crate::isa::DotProducts;
use crate::matmul::types::{Choice, Job, Kernel, Rounded};
use crate::matmul::unpacked::Unpacked;
use crate::memory::Scratch;

/// The kernel for a format.
pub(super) fn choose<F: Format>(_: DotProducts) -> Choice<Rounded> {
    // SAFETY: the token is proof of the feature; the function is for this format.
    Choice { kernel: unsafe { Kernel::new(F::QUANT, one_row::<F>) }, tile: 2 }
}

dotprod! {
fn one_row<F: Format>(job: &mut Job<'_, Rounded>, _: &mut Scratch) {
    let x = job.x;
    let rows = job.w.rows();
    for first in (0..rows).step_by(2) {
        let second = (first + 1).min(rows - 1);
        let dots = two_rows::<F>([job.w.row(first), job.w.row(second)], x);
        for token in 0..job.tokens.len() {
            job.out.store(token, first, &dots[..second - first + 1]);
        }
    }
}
}

dotprod! {
#[inline]
fn two_rows<F: Format>(rows: [&[u8]; 2], x: &Quantised) -> [f32; 2] {
    let panel_bytes = SUPER / F::LEN * F::BYTES;
    let mut sums = [[vdupq_n_f32(0.0); 2]; 2];
    let mut w = [Unpacked::ZERO; 2];
    for panel in 0..x.panels() {
        let (values, meta) = (x.values(panel, 0), x.meta(panel, 0));
        // Both rows are unpacked before either is read back: stores need time to arrive in the cache.
        for (row, w) in rows.iter().zip(&mut w) {
            w.fill::<F>(&row[panel * panel_bytes..((panel + 1) * panel_bytes).min(row.len())]);
        }
        for (w, sums) in w.iter().zip(&mut sums) {
            add::<F>(sums, w, values, meta);
        }
    }
    sums.map(|[even, odd]| vaddvq_f32(vaddq_f32(even, odd)))
}
}

dotprod! {
/// Adds the products of one panel to two vectors of sums, in turn.
#[inline]
fn add<F: Format>(sums: &mut [float32x4_t; 2], w: &Unpacked, x: &[i8; SUPER], meta: &Meta) {
    let zero = vdupq_n_s32(0);
    for g in 0..8 {
        // SAFETY: `32 g + 32 <= 256`, the length of both.
        let (q, x) = unsafe {
            let (q, x) = (w.q.as_ptr().add(32 * g), x.as_ptr().add(32 * g));
            ([vld1q_s8(q), vld1q_s8(q.add(16))], [vld1q_s8(x), vld1q_s8(x.add(16))])
        };
        let first = dot(zero, q[0], x[0]);
        if F::GROUP == 32 {
            let whole = vcvtq_f32_s32(dot(first, q[1], x[1]));
            sums[g % 2] = vfmaq_n_f32(sums[g % 2], whole, w.scale[g] * meta.d[g]);
        } else {
            let parts = [first, dot(zero, q[1], x[1])];
            for (half, part) in parts.into_iter().enumerate() {
                sums[half] = vfmaq_n_f32(sums[half], vcvtq_f32_s32(part), w.scale[2 * g + half] * meta.d[g]);
            }
        }
    }
    if F::MIN {
        subtract_minima::<F>(sums, w, meta);
    }
}
}

/// Subtracts the minima times the sums of the activations.
#[target_feature(enable = "neon")]
#[inline]
fn subtract_minima<F: Format>(sums: &mut [float32x4_t; 2], w: &Unpacked, meta: &Meta) {
    for half in 0..2 {
        if F::GROUP == 32 {
            // SAFETY: `4 half + 4 <= 8` sums, no more than there are minima.
            let (min, dsum) = unsafe {
                (vld1q_f32(w.min.as_ptr().add(4 * half)), vld1q_f32(meta.dsum.as_ptr().add(4 * half)))
            };
            sums[half] = vfmsq_f32(sums[half], min, dsum);
        } else {
            // SAFETY: `4 half + 4 <= 8` scales; `8 half + 8 <= 16` sums and minima.
            let (d, total, min) = unsafe {
                let min = w.min.as_ptr().add(8 * half);
                (
                    vld1q_f32(meta.d.as_ptr().add(4 * half)),
                    vld1q_s16(meta.sum16.as_ptr().add(8 * half)),
                    [vld1q_f32(min), vld1q_f32(min.add(4))],
                )
            };
            let total = [vmovl_s16(vget_low_s16(total)), vmovl_high_s16(total)].map(|v| vcvtq_f32_s32(v));
            let d = [vzip1q_f32(d, d), vzip2q_f32(d, d)];
            for i in 0..2 {
                sums[i] = vfmsq_f32(sums[i], min[i], vmulq_f32(total[i], d[i]));
            }
        }
    }
}

//! One row of activations, or few: blocks are unpacked to bytes in the first-level cache, then multiplied with all of
//! them; the sums of four rows of weights are added with these rows in lanes.

use std::arch::aarch64::*;

use super::features::{dot, dotprod};
use super::tile::{NeonFormat, Scales, transpose};
use crate::activations::{Int8Rows, Meta};
use crate::blocks::{Format, GROUPS, SUPER};
use crate::isa::DotProducts;
use crate::matmul::types::{Int8Activations, Kernel, KernelChoice, MatmulJob};
use crate::matmul::unpacked::Unpacked;
use crate::memory::Scratch;

/// Rows that share the lanes.
const ROWS: usize = 4;
/// The most rows of activations that unpacked blocks are multiplied with.
pub(super) const TOGETHER: usize = 4;

/// A panel of a row of activations.
type ActivationPanel<'a> = (&'a [i8; SUPER], &'a Meta);

/// The kernel for a format.
pub(super) fn choose<S: NeonFormat>(_: DotProducts) -> KernelChoice<Int8Activations> {
    // SAFETY: the token is proof of the feature; the function is for this format.
    KernelChoice { kernel: unsafe { Kernel::new(S::Blocks::QUANT, gemv::<S>) }, tile: ROWS }
}

dotprod! {
fn gemv<S: NeonFormat>(job: &mut MatmulJob<'_, Int8Activations>, _: &mut Scratch) {
    let tokens = job.tokens.len();
    for first in (0..tokens).step_by(TOGETHER) {
        match tokens - first {
            1 => together::<S, 1>(job, first),
            2 => together::<S, 2>(job, first),
            3 => together::<S, 3>(job, first),
            _ => together::<S, TOGETHER>(job, first),
        }
    }
}
}

dotprod! {
/// The products with the `T` tokens from `token` on.
fn together<S: NeonFormat, const T: usize>(job: &mut MatmulJob<'_, Int8Activations>, token: usize) {
    let rows = job.w.rows();
    let tokens = std::array::from_fn(|t| job.tokens.row(token + t));
    for first in (0..rows).step_by(ROWS) {
        let four = [0, 1, 2, 3].map(|i| job.w.row((first + i).min(rows - 1)));
        for (t, sums) in four_rows::<S, T>(four, job.x, tokens).into_iter().enumerate() {
            let mut values = [0f32; ROWS];
            // SAFETY: four floats.
            unsafe { vst1q_f32(values.as_mut_ptr(), sums) };
            job.out.store(token + t, first, &values[..(rows - first).min(ROWS)]);
        }
    }
}
}

dotprod! {
#[inline]
fn four_rows<S: NeonFormat, const T: usize>(
    rows: [&[u8]; ROWS],
    x: &Int8Rows,
    tokens: [usize; T],
) -> [float32x4_t; T] {
    let panel_bytes = SUPER / S::Blocks::LEN * S::Blocks::BYTES;
    let mut sums = [vdupq_n_f32(0.0); T];
    let mut w = [Unpacked::ZERO; ROWS];
    for panel in 0..x.panels() {
        let blocks = rows.map(|row| &row[panel * panel_bytes..((panel + 1) * panel_bytes).min(row.len())]);
        // All rows are unpacked before one is read back: stores need time to arrive in the cache.
        for (w, blocks) in w.iter_mut().zip(blocks) {
            w.fill::<S::Blocks>(blocks);
        }
        let scales = [0, 1, 2, 3].map(|i| S::scales(&w[i], blocks[i]));
        let panels = tokens.map(|token| (x.values(panel, token), x.meta(panel, token)));
        if S::Blocks::WIDE {
            wide::<S::Blocks, T>(&mut sums, &w, &scales, panels);
        } else {
            narrow::<S::Blocks, T>(&mut sums, &w, &scales, panels);
        }
    }
    sums
}
}

dotprod! {
/// The products of 16 values from `at` on, in four parts.
#[inline]
fn sixteen(sum: int32x4_t, w: &Unpacked, x: &[i8; SUPER], at: usize) -> int32x4_t {
    // SAFETY: `at + 16 <= 256`, the length of both.
    let (w, x) = unsafe { (vld1q_s8(w.q.as_ptr().add(at)), vld1q_s8(x.as_ptr().add(at))) };
    dot(sum, w, x)
}
}

dotprod! {
/// The products of group `g`, in four parts.
#[inline]
fn group<F: Format>(w: &Unpacked, x: &[i8; SUPER], g: usize) -> int32x4_t {
    let first = sixteen(vdupq_n_s32(0), w, x, g * F::GROUP);
    if F::GROUP == 32 { sixteen(first, w, x, g * F::GROUP + 16) } else { first }
}
}

/// The sums of the four numbers of each.
#[target_feature(enable = "neon")]
#[inline]
fn merge([a, b, c, d]: [int32x4_t; 4]) -> int32x4_t {
    vpaddq_s32(vpaddq_s32(a, b), vpaddq_s32(c, d))
}

dotprod! {
/// Adds the products of one panel of four rows of a wide format: see the order in `matmul`.
#[inline]
fn wide<F: Format, const T: usize>(
    sums: &mut [float32x4_t; T],
    w: &[Unpacked; ROWS],
    scales: &[Scales; ROWS],
    x: [ActivationPanel; T],
) {
    let mut products = [[vdupq_n_s32(0); ROWS]; T];
    let mut minima = [[0i32; ROWS]; T];
    let (mut d, mut dmin) = ([0f32; ROWS], [0f32; ROWS]);
    for (i, (w, scales)) in w.iter().zip(scales).enumerate() {
        for g in 0..SUPER / F::GROUP {
            for (t, (values, meta)) in x.into_iter().enumerate() {
                products[t][i] = vmlaq_n_s32(products[t][i], group::<F>(w, values, g), scales.scale[g] as i32);
                if F::MIN {
                    let sum = if F::GROUP == 32 { meta.sum32[g] } else { meta.sum16[g] };
                    minima[t][i] += scales.min[g] as i32 * i32::from(sum);
                }
            }
        }
        (d[i], dmin[i]) = (scales.factors.d, scales.factors.dmin);
    }
    // SAFETY: four numbers each.
    let (d, dmin) = unsafe { (vld1q_f32(d.as_ptr()), vld1q_f32(dmin.as_ptr())) };
    for (t, (_, meta)) in x.into_iter().enumerate() {
        sums[t] = vfmaq_f32(sums[t], vcvtq_f32_s32(merge(products[t])), vmulq_n_f32(d, meta.d[0]));
        if F::MIN {
            // SAFETY: four numbers.
            let minima = unsafe { vld1q_s32(minima[t].as_ptr()) };
            sums[t] = vfmsq_f32(sums[t], vcvtq_f32_s32(minima), vmulq_n_f32(dmin, meta.d[0]));
        }
    }
}
}

/// The numbers of four groups from `first` on, rows in lanes.
#[target_feature(enable = "neon")]
#[inline]
fn columns(rows: [&[u32; GROUPS]; ROWS], first: usize) -> [float32x4_t; 4] {
    // SAFETY: `first + 4 <= 16`.
    let rows = rows.map(|row| unsafe { vreinterpretq_s32_u32(vld1q_u32(row.as_ptr().add(first))) });
    transpose(rows).map(|v| vreinterpretq_f32_s32(v))
}

dotprod! {
/// Adds the products of one panel of four rows of a narrow format: see the order in `matmul`.
#[inline]
fn narrow<F: Format, const T: usize>(
    sums: &mut [float32x4_t; T],
    w: &[Unpacked; ROWS],
    scales: &[Scales; ROWS],
    x: [ActivationPanel; T],
) {
    let mut totals = [vdupq_n_f32(0.0); T];
    for first in (0..SUPER / F::GROUP).step_by(4) {
        let scale = columns(scales.each_ref().map(|s| &s.scale), first);
        let min = columns(scales.each_ref().map(|s| &s.min), first);
        for (total, (values, meta)) in totals.iter_mut().zip(x) {
            let products = w.each_ref().map(|w| {
                let of = |i: usize| group::<F>(w, values, first + i);
                merge([of(0), of(1), of(2), of(3)])
            });
            let products = transpose(products);
            for i in 0..4 {
                let part = (first + i) * F::GROUP / 32;
                *total = vfmaq_f32(*total, vcvtq_f32_s32(products[i]), vmulq_n_f32(scale[i], meta.d[part]));
                if F::MIN {
                    *total = vfmsq_f32(*total, min[i], vdupq_n_f32(meta.dsum[part]));
                }
            }
        }
    }
    for (sum, total) in sums.iter_mut().zip(totals) {
        *sum = vaddq_f32(*sum, total);
    }
}
}

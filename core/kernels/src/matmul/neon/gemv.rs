//! One row of activations: blocks are unpacked to bytes in the first-level cache, then multiplied; the sums of four
//! rows are added with the rows in lanes.

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

/// The kernel for a format.
pub(super) fn choose<S: NeonFormat>(_: DotProducts) -> KernelChoice<Int8Activations> {
    // SAFETY: the token is proof of the feature; the function is for this format.
    KernelChoice { kernel: unsafe { Kernel::new(S::Blocks::QUANT, gemv::<S>) }, tile: ROWS }
}

dotprod! {
fn gemv<S: NeonFormat>(job: &mut MatmulJob<'_, Int8Activations>, _: &mut Scratch) {
    let rows = job.w.rows();
    for first in (0..rows).step_by(ROWS) {
        let four = [0, 1, 2, 3].map(|i| job.w.row((first + i).min(rows - 1)));
        let mut sums = [0f32; ROWS];
        // SAFETY: four floats.
        unsafe { vst1q_f32(sums.as_mut_ptr(), four_rows::<S>(four, job.x)) };
        for token in 0..job.tokens.len() {
            job.out.store(token, first, &sums[..(rows - first).min(ROWS)]);
        }
    }
}
}

dotprod! {
#[inline]
fn four_rows<S: NeonFormat>(rows: [&[u8]; ROWS], x: &Int8Rows) -> float32x4_t {
    let panel_bytes = SUPER / S::Blocks::LEN * S::Blocks::BYTES;
    let mut sums = vdupq_n_f32(0.0);
    let mut w = [Unpacked::ZERO; ROWS];
    for panel in 0..x.panels() {
        let blocks = rows.map(|row| &row[panel * panel_bytes..((panel + 1) * panel_bytes).min(row.len())]);
        // All rows are unpacked before one is read back: stores need time to arrive in the cache.
        for (w, blocks) in w.iter_mut().zip(blocks) {
            w.fill::<S::Blocks>(blocks);
        }
        let scales = [0, 1, 2, 3].map(|i| S::scales(&w[i], blocks[i]));
        let (values, meta) = (x.values(panel, 0), x.meta(panel, 0));
        sums = if S::Blocks::WIDE {
            wide::<S::Blocks>(sums, &w, &scales, (values, meta))
        } else {
            narrow::<S::Blocks>(sums, &w, &scales, (values, meta))
        };
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
fn wide<F: Format>(
    sums: float32x4_t,
    w: &[Unpacked; ROWS],
    scales: &[Scales; ROWS],
    (x, meta): (&[i8; SUPER], &Meta),
) -> float32x4_t {
    let mut products = [vdupq_n_s32(0); ROWS];
    let (mut minima, mut d, mut dmin) = ([0i32; ROWS], [0f32; ROWS], [0f32; ROWS]);
    for (i, (w, scales)) in w.iter().zip(scales).enumerate() {
        for g in 0..SUPER / F::GROUP {
            products[i] = vmlaq_n_s32(products[i], group::<F>(w, x, g), scales.scale[g] as i32);
            if F::MIN {
                let sum = if F::GROUP == 32 { meta.sum32[g] } else { meta.sum16[g] };
                minima[i] += scales.min[g] as i32 * i32::from(sum);
            }
        }
        (d[i], dmin[i]) = (scales.factors.d, scales.factors.dmin);
    }
    // SAFETY: four numbers each.
    let (minima, d, dmin) = unsafe { (vld1q_s32(minima.as_ptr()), vld1q_f32(d.as_ptr()), vld1q_f32(dmin.as_ptr())) };
    let sums = vfmaq_f32(sums, vcvtq_f32_s32(merge(products)), vmulq_n_f32(d, meta.d[0]));
    if F::MIN { vfmsq_f32(sums, vcvtq_f32_s32(minima), vmulq_n_f32(dmin, meta.d[0])) } else { sums }
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
fn narrow<F: Format>(
    sums: float32x4_t,
    w: &[Unpacked; ROWS],
    scales: &[Scales; ROWS],
    (x, meta): (&[i8; SUPER], &Meta),
) -> float32x4_t {
    let mut total = vdupq_n_f32(0.0);
    for first in (0..SUPER / F::GROUP).step_by(4) {
        let products = w.each_ref().map(|w| {
            let [a, b, c, d] = [first, first + 1, first + 2, first + 3];
            merge([group::<F>(w, x, a), group::<F>(w, x, b), group::<F>(w, x, c), group::<F>(w, x, d)])
        });
        let products = transpose(products);
        let scale = columns(scales.each_ref().map(|s| &s.scale), first);
        let min = columns(scales.each_ref().map(|s| &s.min), first);
        for i in 0..4 {
            let part = (first + i) * F::GROUP / 32;
            total = vfmaq_f32(total, vcvtq_f32_s32(products[i]), vmulq_n_f32(scale[i], meta.d[part]));
            if F::MIN {
                total = vfmsq_f32(total, min[i], vdupq_n_f32(meta.dsum[part]));
            }
        }
    }
    vaddq_f32(sums, total)
}
}

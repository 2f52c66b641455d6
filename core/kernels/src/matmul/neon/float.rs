//! Products in f32: weights are converted to f32 in the first-level cache, then multiplied. Advanced SIMD belongs to
//! the baseline of aarch64, so these are for every processor.

use std::arch::aarch64::*;

use super::features::halves_to_floats;
use super::tile::{VECTORS, add_to, no_totals};
use crate::activations::Activations;
use crate::blocks::{BlockType, FloatType, Matrix, SUPER, dequantise_row};
use crate::isa::Neon;
use crate::matmul::tiles::{self, Engine, LANES, Place, TOKENS};
use crate::matmul::types::{Choice, Class, Float, Function, Job, Kernel};
use crate::memory::Scratch;

/// Sixteen rows by 256 columns: `[column][row]`.
type Tile = [[f32; LANES]; SUPER];

/// Converted panels, one row each.
type Converted = [[f32; SUPER]; LANES];

/// The kernel for any type.
pub(super) fn choose(_: Neon, block: BlockType, class: Class) -> Choice<Float> {
    let (function, tile): (Function<Float>, usize) = match class {
        Class::OneRow => (one_row, 2),
        Class::ManyRows => (many, LANES),
    };
    // SAFETY: the token is proof of the feature; the functions ask for the type.
    Choice { kernel: unsafe { Kernel::new(block, function) }, tile }
}

/// One row of activations.
#[target_feature(enable = "neon")]
fn one_row(job: &mut Job<'_, Float>, _: &mut Scratch) {
    let x = job.x.row(job.tokens.row(0));
    let rows = job.w.rows();
    let mut converted = [[0f32; SUPER]; 2];
    for first in (0..rows).step_by(2) {
        let pair = [first, (first + 1).min(rows - 1)];
        let mut sums = [[vdupq_n_f32(0.0); 4]; 2];
        for (panel, x) in x.chunks(SUPER).enumerate() {
            for (w, row) in converted.iter_mut().zip(pair) {
                convert(&job.w, row, panel * SUPER, &mut w[..x.len()]);
            }
            for (w, sums) in converted.iter().zip(&mut sums) {
                dot(w, x, sums);
            }
        }
        let dots = sums.map(|[a, b, c, d]| vaddvq_f32(vaddq_f32(vaddq_f32(a, b), vaddq_f32(c, d))));
        for token in 0..job.tokens.len() {
            job.out.store(token, first, &dots[..pair[1] - first + 1]);
        }
    }
}

/// Adds the products of `x` with as many weights to four vectors of sums.
#[target_feature(enable = "neon")]
#[inline]
fn dot(w: &[f32; SUPER], x: &[f32], sums: &mut [float32x4_t; 4]) {
    let (whole, rest) = x.as_chunks::<4>();
    for (i, (w, x)) in w.as_chunks::<4>().0.iter().zip(whole).enumerate() {
        // SAFETY: four floats each.
        let (w, x) = unsafe { (vld1q_f32(w.as_ptr()), vld1q_f32(x.as_ptr())) };
        sums[i % 4] = vfmaq_f32(sums[i % 4], w, x);
    }
    if !rest.is_empty() {
        let (mut last, mut weights) = ([0f32; 4], [0f32; 4]);
        last[..rest.len()].copy_from_slice(rest);
        weights[..rest.len()].copy_from_slice(&w[4 * whole.len()..4 * whole.len() + rest.len()]);
        // SAFETY: four floats each.
        let (w, x) = unsafe { (vld1q_f32(weights.as_ptr()), vld1q_f32(last.as_ptr())) };
        sums[0] = vfmaq_f32(sums[0], w, x);
    }
}

/// Converts `out.len()` columns of a row from column `start` on, a multiple of 256.
#[target_feature(enable = "neon")]
#[inline]
fn convert(w: &Matrix, row: usize, start: usize, out: &mut [f32]) {
    let block = w.block();
    let bytes = block.row_bytes(start).unwrap_or(0);
    let blocks = &w.row(row)[bytes..bytes + block.row_bytes(out.len()).unwrap_or(0)];
    let float = match block {
        BlockType::Float(float @ (FloatType::F16 | FloatType::BF16)) => float,
        _ => return dequantise_row(block, blocks, out),
    };
    let whole = out.len() / 4 * 4;
    for (halves, out) in blocks.as_chunks::<8>().0.iter().zip(out.as_chunks_mut::<4>().0) {
        // SAFETY: four values of two bytes, at any address; room for four floats.
        unsafe {
            let halves = vreinterpret_u16_u8(vld1_u8(halves.as_ptr()));
            let v = if float == FloatType::F16 {
                halves_to_floats(halves)
            } else {
                vreinterpretq_f32_u32(vshlq_n_u32::<16>(vmovl_u16(halves)))
            };
            vst1q_f32(out.as_mut_ptr(), v);
        }
    }
    dequantise_row(block, &blocks[2 * whole..], &mut out[whole..]);
}

/// Tiles of f32.
struct Floats;

/// Many rows of activations.
#[target_feature(enable = "neon")]
fn many(job: &mut Job<'_, Float>, scratch: &mut Scratch) {
    // SAFETY: the features are this function's own.
    unsafe { tiles::run::<Floats, 1>(job, scratch) }
}

// SAFETY: floats; the size of a tile is a multiple of a column's, 64 bytes.
unsafe impl Engine for Floats {
    type Form = Float;
    type Tile<const R: usize> = Tile;
    type Room = Converted;
    const COLS: usize = SUPER;
    const TOKEN_BYTES: usize = SUPER * size_of::<f32>();

    #[target_feature(enable = "neon")]
    unsafe fn pack<const R: usize>(
        w: &Matrix,
        place: Place,
        tile: &mut Tile,
        _: usize,
        converted: &mut Converted,
    ) {
        for (i, out) in converted.iter_mut().enumerate() {
            convert(w, place.row + i.min(place.count - 1), place.start, &mut out[..place.cols]);
        }
        for (k, to) in tile.as_chunks_mut::<4>().0.iter_mut().enumerate().take(place.cols.div_ceil(4)) {
            for v in 0..VECTORS {
                // SAFETY: `4 k + 4 <= 256`, the length of a converted panel.
                let load = |i: usize| unsafe { vld1q_f32(converted[4 * v + i].as_ptr().add(4 * k)) };
                // Four rows as four columns: stores of whole structures interleave their members.
                let mut columns = [0f32; 16];
                let rows = float32x4x4_t(load(0), load(1), load(2), load(3));
                // SAFETY: 16 floats.
                unsafe { vst4q_f32(columns.as_mut_ptr(), rows) };
                for (column, to) in columns.as_chunks::<4>().0.iter().zip(to.iter_mut()) {
                    to[4 * v..4 * v + 4].copy_from_slice(column);
                }
            }
        }
    }

    #[target_feature(enable = "neon")]
    unsafe fn multiply<const R: usize>(
        tile: &Tile,
        x: Activations<'_>,
        tokens: [usize; TOKENS],
        place: Place,
        out: &mut [f32],
    ) {
        let x = tokens.map(|t| &x.row(t)[place.start..place.start + place.cols]);
        let mut sums = no_totals();
        for (k, w) in tile.iter().enumerate().take(place.cols) {
            // SAFETY: `4 v + 4 <= 16` floats.
            let w: [_; VECTORS] = std::array::from_fn(|v| unsafe { vld1q_f32(w.as_ptr().add(4 * v)) });
            for (x, sums) in x.into_iter().zip(&mut sums) {
                // SAFETY: `k < cols`, the length of the slice.
                let x = unsafe { *x.get_unchecked(k) };
                for (w, sum) in w.into_iter().zip(sums) {
                    *sum = vfmaq_n_f32(*sum, w, x);
                }
            }
        }
        add_to(out, &sums);
    }
}

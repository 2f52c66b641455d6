//! Products in f32: weights are converted to f32 in the first-level cache, then multiplied. Advanced SIMD belongs to
//! the baseline of aarch64, so these run on every processor. The order of the sums: `order`.

use std::arch::aarch64::*;
use std::marker::PhantomData;

use super::features::halves_to_floats;
use super::tile::{VECTORS, add_to, no_totals};
use crate::blocks::{BlockType, FloatType, Matrix, SUPER, dequantize_row};
use crate::isa::Neon;
use crate::matmul::order::{BFloat16Input, F32Input, FloatInput, SUMS, total};
use crate::matmul::tiles::{self, LANES, TOKENS, TileProduct, TileRegion};
use crate::matmul::types::{
    BFloat16, Float, Function, InputForm, Kernel, KernelChoice, MatmulJob, ProductKind,
};
use crate::memory::Scratch;

/// Sixteen rows by 256 columns: `[column][row]`.
type Tile = [[f32; LANES]; SUPER];

/// Products of four tokens with sixteen rows.
type Totals = [[float32x4_t; VECTORS]; TOKENS];

/// Converted panels, one row each.
type Converted = [[f32; SUPER]; LANES];

/// The kernel for any type.
pub(super) fn choose(_: Neon, block: BlockType, kind: ProductKind) -> KernelChoice<Float> {
    let (function, tile): (Function<Float>, usize) = match kind {
        ProductKind::Gemv => (gemv::<F32Input>, 2),
        ProductKind::FewRows | ProductKind::Gemm => (gemm::<F32Input>, LANES),
    };
    // SAFETY: the token is proof of the feature; the functions ask for the type.
    KernelChoice { kernel: unsafe { Kernel::new(block, function) }, tile }
}

/// The kernel for BF16 weights and activations rounded to bfloat16.
pub(super) fn bfloat16(_: Neon, kind: ProductKind) -> KernelChoice<BFloat16> {
    let (function, tile): (Function<BFloat16>, usize) = match kind {
        ProductKind::Gemv => (gemv::<BFloat16Input>, 2),
        ProductKind::FewRows | ProductKind::Gemm => (gemm::<BFloat16Input>, LANES),
    };
    // SAFETY: the token is proof of the feature; the functions ask for the type.
    KernelChoice { kernel: unsafe { Kernel::new(FloatType::BF16, function) }, tile }
}

/// One row of activations.
#[target_feature(enable = "neon")]
fn gemv<I: FloatInput>(job: &mut MatmulJob<'_, I::Form>, _: &mut Scratch) {
    let (rows, cols) = (job.w.rows(), job.w.cols());
    let x = &I::row(job.x, job.tokens.row(0))[..cols];
    let mut converted = [0f32; SUPER];
    for row in 0..rows {
        let mut dot = 0f32;
        for (at, x) in x.chunks(SUPER).enumerate() {
            convert::<I>(&job.w, row, at * SUPER, &mut converted[..x.len()]);
            for (w, x) in converted[..x.len()].chunks(I::PANEL).zip(x.chunks(I::PANEL)) {
                dot += panel::<I>(w, x);
            }
        }
        for token in 0..job.tokens.len() {
            job.out.store(token, row, &[dot]);
        }
    }
}

/// The product of up to a panel.
#[target_feature(enable = "neon")]
#[inline]
fn panel<I: FloatInput>(w: &[f32], x: &[I::Value]) -> f32 {
    let mut sums = [vdupq_n_f32(0.0); 2];
    let step = SUMS * I::WIDTH;
    let mut wide = [0f32; 2 * SUMS];
    let mut weights = [0f32; 2 * SUMS];
    for (w, x) in w.chunks(step).zip(x.chunks(step)) {
        wide.fill(0.0);
        weights.fill(0.0);
        // Separates the pairs: even columns first.
        for (n, (w, x)) in w.iter().zip(x).enumerate() {
            let at = n % I::WIDTH * SUMS + n / I::WIDTH;
            (weights[at], wide[at]) = (*w, I::float(*x));
        }
        for k in (0..I::WIDTH).rev() {
            for (half, sum) in sums.iter_mut().enumerate() {
                let at = k * SUMS + 4 * half;
                // SAFETY: `at + 4 <= 16` floats.
                let (w, x) =
                    unsafe { (vld1q_f32(weights.as_ptr().add(at)), vld1q_f32(wide.as_ptr().add(at))) };
                *sum = vfmaq_f32(*sum, w, x);
            }
        }
    }
    let mut all = [0f32; SUMS];
    // SAFETY: eight floats.
    unsafe {
        vst1q_f32(all.as_mut_ptr(), sums[0]);
        vst1q_f32(all.as_mut_ptr().add(4), sums[1]);
    }
    total(all)
}

/// Converts `out.len()` columns of a row from column `start` on, a multiple of 256.
#[target_feature(enable = "neon")]
#[inline]
fn convert<I: FloatInput>(w: &Matrix, row: usize, start: usize, out: &mut [f32]) {
    let block = w.block();
    let bytes = block.row_bytes(start).unwrap_or(0);
    let blocks = &w.row(row)[bytes..bytes + block.row_bytes(out.len()).unwrap_or(0)];
    let float = match block {
        BlockType::Float(float @ (FloatType::F16 | FloatType::BF16)) => float,
        _ => return dequantize_row(block, blocks, out),
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
    dequantize_row(block, &blocks[2 * whole..], &mut out[whole..]);
    out.iter_mut().for_each(|w| *w = I::weight(*w));
}

/// Tiles of f32.
struct NeonFloatTiles<I>(PhantomData<I>);

/// Many rows of activations.
#[target_feature(enable = "neon")]
fn gemm<I: FloatInput>(job: &mut MatmulJob<'_, I::Form>, scratch: &mut Scratch) {
    // SAFETY: the features are this function's own.
    unsafe { tiles::run::<NeonFloatTiles<I>, 1>(job, scratch, pack::<I>) }
}

/// Unpacks a place of the weights: see `tiles::Pack`.
///
/// # Safety
/// The place is in the matrix.
#[target_feature(enable = "neon")]
unsafe fn pack<I: FloatInput>(
    w: &Matrix,
    place: TileRegion,
    tile: &mut Tile,
    _: usize,
    converted: &mut Converted,
) {
    for (i, out) in converted.iter_mut().enumerate() {
        convert::<I>(w, place.row + i.min(place.count - 1), place.start, &mut out[..place.cols]);
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

// SAFETY: floats; the size of a tile is a multiple of a column's, 64 bytes.
unsafe impl<I: FloatInput> TileProduct for NeonFloatTiles<I> {
    type Form = I::Form;
    type Tile = Tile;
    type Scratch = Converted;
    const COLS: usize = SUPER;
    const TOKEN_BYTES: usize = SUPER * size_of::<I::Value>();

    #[target_feature(enable = "neon")]
    unsafe fn multiply<const R: usize>(
        tile: &Tile,
        x: <I::Form as InputForm>::Rows<'_>,
        tokens: [usize; TOKENS],
        place: TileRegion,
        out: &mut [f32],
    ) {
        let x = tokens.map(|t| &I::row(x, t)[place.start..place.start + place.cols]);
        for start in (0..place.cols).step_by(I::PANEL) {
            let end = (start + I::PANEL).min(place.cols);
            let mut totals = one_of_eight::<I>(tile, x, (start, end));
            for sum in 1..SUMS {
                let more = one_of_eight::<I>(tile, x, (start + sum * I::WIDTH, end));
                for (totals, more) in totals.iter_mut().zip(more) {
                    for (total, more) in totals.iter_mut().zip(more) {
                        *total = vaddq_f32(*total, more);
                    }
                }
            }
            add_to(out, &totals);
        }
    }
}

/// One of the eight sums of a panel, for sixteen rows and four tokens: that of the columns, or pairs, `start`, `start + 8`
/// and so on before `end`.
#[target_feature(enable = "neon")]
#[inline]
fn one_of_eight<I: FloatInput>(
    tile: &Tile,
    x: [&[I::Value]; TOKENS],
    (start, end): (usize, usize),
) -> Totals {
    let mut sums = no_totals();
    let mut at = start;
    while at < end {
        for k in (at..end.min(at + I::WIDTH)).rev() {
            // SAFETY: `4 v + 4 <= 16` floats; `k` is below 256, the columns of a tile.
            let w: [_; VECTORS] =
                std::array::from_fn(|v| unsafe { vld1q_f32(tile.get_unchecked(k).as_ptr().add(4 * v)) });
            for (x, sums) in x.into_iter().zip(&mut sums) {
                // SAFETY: `k < end`, at most the length of the slice.
                let x = I::float(unsafe { *x.get_unchecked(k) });
                for (w, sum) in w.into_iter().zip(sums) {
                    *sum = vfmaq_n_f32(*sum, w, x);
                }
            }
        }
        at += SUMS * I::WIDTH;
    }
    sums
}

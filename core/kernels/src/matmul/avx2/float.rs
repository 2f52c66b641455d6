//! Products in f32 through AVX2: weights are converted to f32 in the first-level cache, then multiplied. The order of the
//! sums: `order`.

use std::arch::x86_64::*;
use std::marker::PhantomData;

use super::transpose::transpose8;
use crate::blocks::{BlockType, FloatType, Matrix, SUPER, dequantize_row};
use crate::isa::{Avx2, avx2};
use crate::matmul::order::{BFloat16Input, F32Input, FloatInput, SUMS};
use crate::matmul::tiles::{self, LANES, TOKENS, TileProduct, TileRegion};
use crate::matmul::types::{
    BFloat16, Float, Function, InputForm, Kernel, KernelChoice, MatmulJob, ProductKind,
};
use crate::memory::Scratch;

/// Sixteen rows by 256 columns: `[column][row]`.
type Tile = [[f32; LANES]; SUPER];

/// Converted panels, one row each.
type Converted = [[f32; SUPER]; LANES];

/// Panels of a row whose sums wait until they are added together.
const WAITING: usize = 8;

/// The kernel for any type.
pub(super) fn choose(_: Avx2, block: BlockType, kind: ProductKind) -> KernelChoice<Float> {
    let (function, tile): (Function<Float>, usize) = match kind {
        ProductKind::Gemv => (gemv::<F32Input>, 2),
        ProductKind::FewRows | ProductKind::Gemm => (gemm::<F32Input>, LANES),
    };
    // SAFETY: the token is proof of the features; the functions ask for the type.
    KernelChoice { kernel: unsafe { Kernel::new(block, function) }, tile }
}

/// The kernel for BF16 weights and activations rounded to bfloat16.
pub(super) fn bfloat16(_: Avx2, kind: ProductKind) -> KernelChoice<BFloat16> {
    let (function, tile): (Function<BFloat16>, usize) = match kind {
        ProductKind::Gemv => (gemv::<BFloat16Input>, 2),
        ProductKind::FewRows | ProductKind::Gemm => (gemm::<BFloat16Input>, LANES),
    };
    // SAFETY: the token is proof of the features; the functions ask for the type.
    KernelChoice { kernel: unsafe { Kernel::new(FloatType::BF16, function) }, tile }
}

avx2! {
/// One row of activations.
fn gemv<I: FloatInput>(job: &mut MatmulJob<'_, I::Form>, _: &mut Scratch) {
    let (rows, cols) = (job.w.rows(), job.w.cols());
    let x = &I::row(job.x, job.tokens.row(0))[..cols];
    let far = rows.div_ceil(2);
    let (mut converted, mut wide) = ([0f32; SUPER], [0f32; SUPER]);
    for first in 0..far {
        let pair = [first, (first + far).min(rows - 1)];
        let mut dots = [0f32; 2];
        let mut sums = [[_mm256_setzero_ps(); WAITING]; 2];
        for (many, x) in x.chunks(WAITING * I::PANEL).enumerate() {
            for (at, x) in x.chunks(SUPER).enumerate() {
                let start = many * WAITING * I::PANEL + at * SUPER;
                let x = floats::<I>(x, &mut wide);
                for (row, sums) in pair.into_iter().zip(&mut sums) {
                    convert::<I>(&job.w, row, start, &mut converted[..x.len()]);
                    for (n, (w, x)) in converted[..x.len()].chunks(I::PANEL).zip(x.chunks(I::PANEL)).enumerate() {
                        sums[at * SUPER / I::PANEL + n] = dot::<I>(w, x);
                    }
                }
            }
            for (dot, sums) in dots.iter_mut().zip(&sums) {
                *dot = add(*dot, sums, x.len().div_ceil(I::PANEL));
            }
        }
        for (row, dot) in pair.into_iter().zip(dots) {
            for token in 0..job.tokens.len() {
                job.out.store(token, row, &[dot]);
            }
        }
    }
}
}

/// Activations as floats: in place, or widened into `room`.
#[inline(always)]
fn floats<'a, I: FloatInput>(x: &[I::Value], room: &'a mut [f32; SUPER]) -> &'a [f32] {
    for (to, x) in room.iter_mut().zip(x) {
        *to = I::float(*x);
    }
    &room[..x.len()]
}

avx2! {
/// Eight sums of the products of up to a panel.
#[inline]
fn dot<I: FloatInput>(w: &[f32], x: &[f32]) -> __m256 {
    let mut sums = _mm256_setzero_ps();
    let step = SUMS * I::WIDTH;
    let whole = x.len() / step * step;
    for at in (0..whole).step_by(step) {
        // SAFETY: `at + step <= x.len() == w.len()`.
        sums = unsafe { add_step::<I>(w.as_ptr().add(at), x.as_ptr().add(at), sums) };
    }
    if whole < x.len() {
        let (mut last, mut weights) = ([0f32; 2 * SUMS], [0f32; 2 * SUMS]);
        last[..x.len() - whole].copy_from_slice(&x[whole..]);
        weights[..x.len() - whole].copy_from_slice(&w[whole..]);
        // SAFETY: two steps' worth of floats.
        sums = unsafe { add_step::<I>(weights.as_ptr(), last.as_ptr(), sums) };
    }
    sums
}
}

avx2! {
/// Adds the products of one step to eight sums.
///
/// # Safety
/// Eight times `I::WIDTH` floats behind each pointer.
#[inline]
unsafe fn add_step<I: FloatInput>(w: *const f32, x: *const f32, sums: __m256) -> __m256 {
    // SAFETY: the promise of the caller.
    unsafe {
        if I::WIDTH == 1 {
            return _mm256_fmadd_ps(_mm256_loadu_ps(w), _mm256_loadu_ps(x), sums);
        }
        let [w, x] = [w, x].map(|p| split(_mm256_loadu_ps(p), _mm256_loadu_ps(p.add(8))));
        _mm256_fmadd_ps(w[0], x[0], _mm256_fmadd_ps(w[1], x[1], sums))
    }
}
}

avx2! {
/// Even and odd elements of sixteen, in order.
#[inline]
fn split(low: __m256, high: __m256) -> [__m256; 2] {
    let even = _mm256_shuffle_ps::<0x88>(low, high);
    let odd = _mm256_shuffle_ps::<0xdd>(low, high);
    [even, odd].map(|v| _mm256_castpd_ps(_mm256_permute4x64_pd::<0b11_01_10_00>(_mm256_castps_pd(v))))
}
}

avx2! {
/// Adds the totals of the first panels to `y`, in order.
#[inline]
fn add(y: f32, sums: &[__m256; WAITING], panels: usize) -> f32 {
    let columns = transpose8(sums.map(|v| _mm256_castps_si256(v))).map(|v| _mm256_castsi256_ps(v));
    let mut totals = columns[0];
    for column in &columns[1..] {
        totals = _mm256_add_ps(totals, *column);
    }
    let mut out = [0f32; WAITING];
    // SAFETY: eight floats.
    unsafe { _mm256_storeu_ps(out.as_mut_ptr(), totals) };
    out[..panels].iter().fold(y, |y, total| y + total)
}
}

avx2! {
/// Converts `out.len()` columns of a row from column `start` on, a multiple of 256.
#[inline]
fn convert<I: FloatInput>(w: &Matrix, row: usize, start: usize, out: &mut [f32]) {
    let block = w.block();
    let bytes = block.row_bytes(start).unwrap_or(0);
    let blocks = &w.row(row)[bytes..bytes + block.row_bytes(out.len()).unwrap_or(0)];
    let float = match block {
        BlockType::Float(float @ (FloatType::F16 | FloatType::BF16)) => float,
        _ => return dequantize_row(block, blocks, out),
    };
    let whole = out.len() / 8 * 8;
    for (halves, out) in blocks.as_chunks::<16>().0.iter().zip(out.as_chunks_mut::<8>().0) {
        // SAFETY: eight values of two bytes, room for eight floats.
        unsafe {
            let halves = _mm_loadu_si128(halves.as_ptr().cast());
            let v = if float == FloatType::F16 {
                _mm256_cvtph_ps(halves)
            } else {
                _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(halves)))
            };
            _mm256_storeu_ps(out.as_mut_ptr(), v);
        }
    }
    dequantize_row(block, &blocks[2 * whole..], &mut out[whole..]);
    out.iter_mut().for_each(|w| *w = I::weight(*w));
}
}

/// Tiles of f32.
struct Avx2FloatTiles<I>(PhantomData<I>);

avx2! {
/// Many rows of activations.
fn gemm<I: FloatInput>(job: &mut MatmulJob<'_, I::Form>, scratch: &mut Scratch) {
    // SAFETY: the features are this function's own.
    unsafe { tiles::run::<Avx2FloatTiles<I>, 1>(job, scratch, pack::<I>) }
}
}

avx2! {
/// Unpacks a place of the weights: see `tiles::Pack`.
///
/// # Safety
/// The place is in the matrix.
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
    for (k, to) in tile.as_chunks_mut::<8>().0.iter_mut().enumerate().take(place.cols.div_ceil(8)) {
        for half in 0..2 {
            // SAFETY: `8 k + 8 <= 256`, the length of a converted panel.
            let load = |i: usize| unsafe {
                _mm256_loadu_si256(converted[8 * half + i].as_ptr().add(8 * k).cast())
            };
            let rows = [load(0), load(1), load(2), load(3), load(4), load(5), load(6), load(7)];
            for (v, to) in transpose8(rows).into_iter().zip(to.iter_mut()) {
                // SAFETY: `8 * half + 8 <= 16` floats.
                unsafe { _mm256_storeu_si256(to.as_mut_ptr().add(8 * half).cast(), v) }
            }
        }
    }
}
}

// SAFETY: floats; the size of a tile is a multiple of a column's, 64 bytes.
unsafe impl<I: FloatInput> TileProduct for Avx2FloatTiles<I> {
    type Form = I::Form;
    type Tile = Tile;
    type Scratch = Converted;
    const COLS: usize = SUPER;
    const TOKEN_BYTES: usize = SUPER * size_of::<I::Value>();

    avx2! {
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
                    *totals = [_mm256_add_ps(totals[0], more[0]), _mm256_add_ps(totals[1], more[1])];
                }
            }
            for (totals, out) in totals.into_iter().zip(out.as_chunks_mut::<LANES>().0) {
                for (half, total) in totals.into_iter().enumerate() {
                    // SAFETY: `8 * half + 8 <= 16` floats.
                    unsafe {
                        let to = out.as_mut_ptr().add(8 * half);
                        _mm256_storeu_ps(to, _mm256_add_ps(_mm256_loadu_ps(to), total));
                    }
                }
            }
        }
    }
    }
}

avx2! {
/// One of the eight sums of a panel, for sixteen rows and four tokens: that of the columns, or pairs, `start`, `start + 8`
/// and so on before `end`.
#[inline]
fn one_of_eight<I: FloatInput>(
    tile: &Tile,
    x: [&[I::Value]; TOKENS],
    (start, end): (usize, usize),
) -> [[__m256; 2]; TOKENS] {
    let mut sums = [[_mm256_setzero_ps(); 2]; TOKENS];
    let mut at = start;
    while at < end {
        for k in (at..end.min(at + I::WIDTH)).rev() {
            // SAFETY: 16 floats; `k` is below 256, the columns of a tile.
            let w = unsafe {
                let column = tile.get_unchecked(k).as_ptr();
                [_mm256_loadu_ps(column), _mm256_loadu_ps(column.add(8))]
            };
            for (x, sums) in x.into_iter().zip(&mut sums) {
                // SAFETY: `k < end`, at most the length of the slice.
                let x = _mm256_set1_ps(I::float(unsafe { *x.get_unchecked(k) }));
                for (w, sum) in w.into_iter().zip(sums) {
                    *sum = _mm256_fmadd_ps(w, x, *sum);
                }
            }
        }
        at += SUMS * I::WIDTH;
    }
    sums
}
}

//! Products in f32 through AVX2: weights are converted to f32 in the first-level cache, then multiplied.

use std::arch::x86_64::*;

use super::transpose::transpose8;
use crate::activations::Activations;
use crate::blocks::{BlockType, FloatType, Matrix, SUPER, dequantise_row};
use crate::isa::{Avx2, avx2};
use crate::matmul::tiles::{self, Engine, LANES, Place, TOKENS};
use crate::matmul::types::{Choice, Class, Float, Function, Job, Kernel};
use crate::memory::Scratch;

/// Sixteen rows by 256 columns: `[column][row]`.
type Tile = [[f32; LANES]; SUPER];

/// Converted panels, one row each.
type Converted = [[f32; SUPER]; LANES];

/// The kernel for any type.
pub(super) fn choose(_: Avx2, block: BlockType, class: Class) -> Choice<Float> {
    let (function, tile): (Function<Float>, usize) = match class {
        Class::OneRow => (one_row, 2),
        Class::ManyRows => (many, LANES),
    };
    // SAFETY: the token is proof of the features; the functions ask for the type.
    Choice { kernel: unsafe { Kernel::new(block, function) }, tile }
}

avx2! {
/// One row of activations.
fn one_row(job: &mut Job<'_, Float>, _: &mut Scratch) {
    let x = job.x.row(job.tokens.row(0));
    let rows = job.w.rows();
    let far = rows.div_ceil(2);
    let mut converted = [[0f32; SUPER]; 2];
    for first in 0..far {
        let pair = [first, (first + far).min(rows - 1)];
        let mut sums = [[_mm256_setzero_ps(); 4]; 2];
        for (panel, x) in x.chunks(SUPER).enumerate() {
            for (w, row) in converted.iter_mut().zip(pair) {
                convert(&job.w, row, panel * SUPER, &mut w[..x.len()]);
            }
            for (w, sums) in converted.iter().zip(&mut sums) {
                dot(w, x, sums);
            }
        }
        for (row, [a, b, c, d]) in pair.into_iter().zip(sums) {
            let s = _mm256_add_ps(_mm256_add_ps(a, b), _mm256_add_ps(c, d));
            let s = _mm_add_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps::<1>(s));
            let s = _mm_add_ps(s, _mm_movehl_ps(s, s));
            let s = _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
            for token in 0..job.tokens.len() {
                job.out.store(token, row, &[s]);
            }
        }
    }
}
}

avx2! {
/// Adds the products of `x` with as many weights to four vectors of sums.
#[inline]
fn dot(w: &[f32; SUPER], x: &[f32], sums: &mut [__m256; 4]) {
    let (whole, rest) = x.as_chunks::<8>();
    for (i, (w, x)) in w.as_chunks::<8>().0.iter().zip(whole).enumerate() {
        // SAFETY: eight floats each.
        let (w, x) = unsafe { (_mm256_loadu_ps(w.as_ptr()), _mm256_loadu_ps(x.as_ptr())) };
        sums[i % 4] = _mm256_fmadd_ps(w, x, sums[i % 4]);
    }
    if !rest.is_empty() {
        let (mut last, mut weights) = ([0f32; 8], [0f32; 8]);
        last[..rest.len()].copy_from_slice(rest);
        weights[..rest.len()].copy_from_slice(&w[8 * whole.len()..8 * whole.len() + rest.len()]);
        // SAFETY: eight floats each.
        let (w, x) = unsafe { (_mm256_loadu_ps(weights.as_ptr()), _mm256_loadu_ps(last.as_ptr())) };
        sums[0] = _mm256_fmadd_ps(w, x, sums[0]);
    }
}
}

avx2! {
/// Converts `out.len()` columns of a row from column `start` on, a multiple of 256.
#[inline]
fn convert(w: &Matrix, row: usize, start: usize, out: &mut [f32]) {
    let block = w.block();
    let bytes = block.row_bytes(start).unwrap_or(0);
    let blocks = &w.row(row)[bytes..bytes + block.row_bytes(out.len()).unwrap_or(0)];
    let float = match block {
        BlockType::Float(float @ (FloatType::F16 | FloatType::BF16)) => float,
        _ => return dequantise_row(block, blocks, out),
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
    dequantise_row(block, &blocks[2 * whole..], &mut out[whole..]);
}
}

/// Tiles of f32.
struct Floats;

avx2! {
/// Many rows of activations.
fn many(job: &mut Job<'_, Float>, scratch: &mut Scratch) {
    // SAFETY: the features are this function's own.
    unsafe { tiles::run::<Floats, 1>(job, scratch) }
}
}

// SAFETY: floats; the size of a tile is a multiple of a column's, 64 bytes.
unsafe impl Engine for Floats {
    type Form = Float;
    type Tile<const R: usize> = Tile;
    type Room = Converted;
    const COLS: usize = SUPER;
    const TOKEN_BYTES: usize = SUPER * size_of::<f32>();

    avx2! {
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

    avx2! {
    unsafe fn multiply<const R: usize>(
        tile: &Tile,
        x: Activations<'_>,
        tokens: [usize; TOKENS],
        place: Place,
        out: &mut [f32],
    ) {
        let x = tokens.map(|t| &x.row(t)[place.start..place.start + place.cols]);
        let mut sums = [[_mm256_setzero_ps(); 2]; TOKENS];
        for (k, w) in tile.iter().enumerate().take(place.cols) {
            // SAFETY: 16 floats.
            let w = unsafe { [_mm256_loadu_ps(w.as_ptr()), _mm256_loadu_ps(w.as_ptr().add(8))] };
            for (x, sums) in x.into_iter().zip(&mut sums) {
                // SAFETY: `k < cols`, the length of the slice.
                let x = _mm256_set1_ps(unsafe { *x.get_unchecked(k) });
                for (w, sum) in w.into_iter().zip(sums) {
                    *sum = _mm256_fmadd_ps(w, x, *sum);
                }
            }
        }
        for (sums, out) in sums.into_iter().zip(out.as_chunks_mut::<LANES>().0) {
            for (half, sum) in sums.into_iter().enumerate() {
                // SAFETY: `8 * half + 8 <= 16` floats.
                unsafe {
                    let to = out.as_mut_ptr().add(8 * half);
                    _mm256_storeu_ps(to, _mm256_add_ps(_mm256_loadu_ps(to), sum));
                }
            }
        }
    }
    }
}

//! The engine for the narrow formats (see `tiles`): 16 weight rows in lanes, four columns per dword.

use std::arch::x86_64::*;
use std::marker::PhantomData;

use super::bytes::{correction, offset, pairs};
use super::transpose::{store_half, turn, turn_dwords};
use super::unpack::fill;
use crate::activations::{Int8Rows, Meta};
use crate::blocks::{Format, GROUPS, Matrix, SUPER};
use crate::isa::{Avx2, avx2};
use crate::matmul::tiles::{self, LANES, TOKENS, TileProduct, TileRegion};
use crate::matmul::types::{Int8Activations, Kernel, KernelChoice, MatmulJob};
use crate::matmul::unpacked::Unpacked;
use crate::memory::Scratch;

/// Unpacked weights of 16 rows by 256 columns.
#[repr(C, align(64))]
struct Avx2NarrowTile {
    /// `[columns / 32][dword][16 rows x 4 columns]`: values plus their offset.
    q: [[[i8; 64]; 8]; 8],
    /// The scales of each group.
    scale: [[f32; LANES]; GROUPS],
    /// The minima of each group.
    min: [[f32; LANES]; GROUPS],
}

/// Tiles of a format, 8-bit products.
struct Avx2NarrowTiles<F: Format>(PhantomData<F>);

/// The kernel for a format.
pub(super) fn choose<F: Format>(_: Avx2) -> KernelChoice<Int8Activations> {
    // SAFETY: the token is proof of the features; the function is for this format.
    KernelChoice { kernel: unsafe { Kernel::new(F::QUANT, gemm::<F>) }, tile: LANES }
}

avx2! {
fn gemm<F: Format>(job: &mut MatmulJob<'_, Int8Activations>, scratch: &mut Scratch) {
    // SAFETY: the features are this function's own.
    unsafe { tiles::run::<Avx2NarrowTiles<F>, 1>(job, scratch, pack::<F>) }
}
}

avx2! {
/// Unpacks a place of the weights: see `tiles::Pack`.
///
/// # Safety
/// The place is in the matrix.
unsafe fn pack<F: Format>(
    matrix: &Matrix,
    place: TileRegion,
    tile: &mut Avx2NarrowTile,
    _: usize,
    w: &mut [Unpacked; LANES],
) {
    let at = place.start / F::LEN * F::BYTES;
    let bytes = place.cols / F::LEN * F::BYTES;
    for (i, w) in w.iter_mut().enumerate() {
        fill::<F>(w, &matrix.row(place.row + i.min(place.count - 1))[at..at + bytes]);
    }
    for first in (0..SUPER / F::GROUP).step_by(8) {
        // SAFETY: `first + 8 <= 16` scales and minima.
        let load = |from: &[f32; GROUPS]| unsafe { _mm256_loadu_si256(from.as_ptr().add(first).cast()) };
        turn_dwords(|i| load(&w[i].scale), |g, half, v| store_half(&mut tile.scale[first + g], half, v));
        if F::MIN {
            turn_dwords(|i| load(&w[i].min), |g, half, v| store_half(&mut tile.min[first + g], half, v));
        }
    }
    turn(w, offset::<F>(), &mut tile.q);
}
}

// SAFETY: an `Avx2NarrowTile` and the scratch are numbers, aligned to 64.
unsafe impl<F: Format> TileProduct for Avx2NarrowTiles<F> {
    type Form = Int8Activations;
    type Tile = Avx2NarrowTile;
    type Scratch = [Unpacked; LANES];
    const COLS: usize = SUPER;
    const TOKEN_BYTES: usize = SUPER + size_of::<Meta>();

    const PAIRS: bool = true;

    avx2! {
    unsafe fn multiply<const R: usize>(
        tile: &Avx2NarrowTile,
        x: &Int8Rows,
        tokens: [usize; TOKENS],
        place: TileRegion,
        out: &mut [f32],
    ) {
        add_tokens::<F, TOKENS>(tile, x, tokens, place, out);
    }
    }

    avx2! {
    unsafe fn multiply_pair<const R: usize>(
        tile: &Avx2NarrowTile,
        x: &Int8Rows,
        tokens: [usize; 2],
        place: TileRegion,
        out: &mut [f32],
    ) {
        add_tokens::<F, 2>(tile, x, tokens, place, out);
    }
    }
}

avx2! {
/// Adds the products of a tile with `T` tokens to `out`, `[T][16]`.
#[inline]
fn add_tokens<F: Format, const T: usize>(
    tile: &Avx2NarrowTile,
    x: &Int8Rows,
    tokens: [usize; T],
    place: TileRegion,
    out: &mut [f32],
) {
    let panel = place.start / SUPER;
    let values = tokens.map(|t| x.values(panel, t));
    let meta = tokens.map(|t| x.meta(panel, t));
    let mut totals = [[_mm256_setzero_ps(); 2]; T];
    for g in 0..place.cols / 32 {
        if F::GROUP == 32 {
            group::<F, 8, T>(tile, g, (g, 0), values, meta, &mut totals);
        } else {
            group::<F, 4, T>(tile, 2 * g, (g, 0), values, meta, &mut totals);
            group::<F, 4, T>(tile, 2 * g + 1, (g, 4), values, meta, &mut totals);
        }
    }
    for (totals, out) in totals.into_iter().zip(out.as_chunks_mut::<LANES>().0) {
        for (half, total) in totals.into_iter().enumerate() {
            // SAFETY: `8 * half + 8 <= 16`.
            unsafe {
                let to = out.as_mut_ptr().add(8 * half);
                _mm256_storeu_ps(to, _mm256_add_ps(_mm256_loadu_ps(to), total));
            }
        }
    }
}
}

avx2! {
/// Adds the products of one group of `4 * STEPS` columns, those from dword `first` of `tile.q[at]` on.
#[inline]
fn group<F: Format, const STEPS: usize, const T: usize>(
    tile: &Avx2NarrowTile,
    group: usize,
    (at, first): (usize, usize),
    x: [&[i8; SUPER]; T],
    meta: [&Meta; T],
    totals: &mut [[__m256; 2]; T],
) {
    // As many pairs of products as surely fit in 16 bits are added there.
    let depth = (32767 / (2 * 127 * F::SPAN)).clamp(1, STEPS as i32) as usize;
    let ones = _mm256_set1_epi16(1);
    let mut sums = [[_mm256_setzero_si256(); 2]; T];
    let mut step = 0;
    while step < STEPS {
        let mut halves = [[_mm256_setzero_si256(); 2]; T];
        for i in first + step..first + STEPS.min(step + depth) {
            // SAFETY: 64 bytes; four values of 256 at `32 at + 4 i`.
            unsafe {
                let from = tile.q[at][i].as_ptr();
                let w = [_mm256_loadu_si256(from.cast()), _mm256_loadu_si256(from.add(32).cast())];
                for (x, halves) in x.into_iter().zip(&mut halves) {
                    let x = _mm256_set1_epi32(x.as_ptr().add(32 * at + 4 * i).cast::<i32>().read_unaligned());
                    for (w, half) in w.into_iter().zip(halves) {
                        *half = _mm256_add_epi16(*half, pairs::<F>(w, x));
                    }
                }
            }
        }
        for (halves, sums) in halves.into_iter().zip(&mut sums) {
            for (half, sum) in halves.into_iter().zip(sums) {
                *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(half, ones));
            }
        }
        step += depth;
    }
    for ((meta, sums), totals) in meta.into_iter().zip(sums).zip(totals) {
        let neg = if STEPS == 8 { meta.neg32[at] } else { meta.neg16[group] };
        let start = _mm256_set1_epi32(correction::<F>(neg));
        let d = _mm256_set1_ps(meta.d[at]);
        let whole = if STEPS == 8 { meta.sum32[at] } else { meta.sum16[group] };
        let dsum = _mm256_set1_ps(meta.d[at] * f32::from(whole));
        for (half, (sum, total)) in sums.into_iter().zip(totals).enumerate() {
            // SAFETY: 16 scales and minima.
            unsafe {
                let scale = _mm256_mul_ps(_mm256_loadu_ps(tile.scale[group].as_ptr().add(8 * half)), d);
                *total = _mm256_fmadd_ps(_mm256_cvtepi32_ps(_mm256_add_epi32(sum, start)), scale, *total);
                if F::MIN {
                    let min = _mm256_loadu_ps(tile.min[group].as_ptr().add(8 * half));
                    *total = _mm256_fnmadd_ps(min, dsum, *total);
                }
            }
        }
    }
}
}

//! Many rows of activations in f32: tiles of weights are converted to f32, rows in lanes, as in `gemm_narrow`.

use std::arch::x86_64::*;

use super::tile_narrow::transpose16;
use crate::activations::Activations;
use crate::blocks::{BlockType, FloatType, Matrix, SUPER, dequantize_row};
use crate::isa::Avx512;
use crate::isa::avx512;
use crate::matmul::order::{F32Input, FloatInput, SUMS};
use crate::matmul::tiles::{self, LANES, TOKENS, TileProduct, TileRegion};
use crate::matmul::types::{Float, Kernel, KernelChoice, MatmulJob};
use crate::memory::Scratch;

/// The row vectors of a tile.
const VECTORS: usize = 3;
/// The columns of a tile, a panel: with 48 rows 24 KiB, which stay in the first-level cache.
const COLS: usize = F32Input::PANEL;

/// Weights as f32, `[column][row vector][row]`.
type Tile = [[[f32; LANES]; VECTORS]; COLS];

/// Sixteen rows' panels of quantized weights, converted.
type Converted = [[f32; SUPER]; LANES];

/// The kernel for any type.
pub(super) fn choose(_: Avx512, block: BlockType) -> KernelChoice<Float> {
    // SAFETY: the token is proof of the features; the function asks for the type.
    KernelChoice { kernel: unsafe { Kernel::new(block, gemm) }, tile: VECTORS * LANES }
}

/// Tiles of f32.
struct Avx512FloatTiles;

avx512! {
fn gemm(job: &mut MatmulJob<'_, Float>, scratch: &mut Scratch) {
    // SAFETY: the features are this function's own.
    unsafe { tiles::run::<Avx512FloatTiles, VECTORS>(job, scratch, pack) }
}
}

avx512! {
/// Unpacks a place of the weights: see `tiles::Pack`.
///
/// # Safety
/// The place is in the matrix.
unsafe fn pack(w: &Matrix, place: TileRegion, tile: &mut Tile, r: usize, converted: &mut Converted) {
    if let BlockType::Quant(_) = w.block() {
        convert(w, place, converted);
    }
    turn(w, place, tile, r, converted);
}
}

// SAFETY: floats; the size of a tile is a multiple of a vector's, 64 bytes.
unsafe impl TileProduct for Avx512FloatTiles {
    type Form = Float;
    type Tile = Tile;
    type Scratch = Converted;
    const COLS: usize = COLS;
    const PAIRS: bool = true;
    const TOKEN_BYTES: usize = COLS * size_of::<f32>();

    avx512! {
    unsafe fn multiply<const R: usize>(
        tile: &Tile,
        x: Activations<'_>,
        tokens: [usize; TOKENS],
        place: TileRegion,
        out: &mut [f32],
    ) {
        let x = tokens.map(|t| x.row(t)[place.start..place.start + place.cols].as_ptr());
        // SAFETY: `cols` values behind each pointer; the caller promises the length of `out`.
        unsafe { multiply::<R, TOKENS>(tile, x, place.cols, out.as_mut_ptr()) }
    }
    }

    avx512! {
    unsafe fn multiply_pair<const R: usize>(
        tile: &Tile,
        x: Activations<'_>,
        tokens: [usize; 2],
        place: TileRegion,
        out: &mut [f32],
    ) {
        let x = tokens.map(|t| x.row(t)[place.start..place.start + place.cols].as_ptr());
        // SAFETY: as above.
        unsafe { multiply::<R, 2>(tile, x, place.cols, out.as_mut_ptr()) }
    }
    }
}

avx512! {
/// Adds the products of a tile and `T` tokens to `out`, `[T][16 R]`.
///
/// # Safety
/// `cols` values behind each pointer, at most `COLS`; `out` has room for `16 * R * T` floats.
#[inline]
unsafe fn multiply<const R: usize, const T: usize>(tile: &Tile, x: [*const f32; T], cols: usize, out: *mut f32) {
    // SAFETY: the promise of the caller.
    let mut totals = unsafe { one_of_eight::<R, T>(tile, x, 0, cols) };
    for sum in 1..SUMS {
        // SAFETY: as above.
        let more = unsafe { one_of_eight::<R, T>(tile, x, sum, cols) };
        for (totals, more) in totals.iter_mut().zip(more) {
            for (total, more) in totals.iter_mut().zip(more) {
                *total = _mm512_add_ps(*total, more);
            }
        }
    }
    for (r, totals) in totals.into_iter().enumerate() {
        for (t, total) in totals.into_iter().enumerate() {
            // SAFETY: the room that the caller promises.
            unsafe {
                let to = out.add((t * R + r) * 16);
                _mm512_storeu_ps(to, _mm512_add_ps(_mm512_loadu_ps(to), total));
            }
        }
    }
}
}

avx512! {
/// One of the eight sums of a panel (see `order`): that of the columns `sum`, `sum + 8` and so on.
///
/// # Safety
/// `cols` values behind each pointer, at most `COLS`.
#[inline]
unsafe fn one_of_eight<const R: usize, const T: usize>(
    tile: &Tile,
    x: [*const f32; T],
    sum: usize,
    cols: usize,
) -> [[__m512; T]; R] {
    let mut sums = [[_mm512_setzero_ps(); T]; R];
    let mut k = sum;
    while k < cols {
        // SAFETY: `k < cols <= COLS`; 64 bytes each.
        let w: [__m512; R] =
            std::array::from_fn(|r| unsafe { _mm512_loadu_ps(tile.get_unchecked(k)[r].as_ptr()) });
        for (t, x) in x.into_iter().enumerate() {
            // SAFETY: `k < cols`.
            let x = _mm512_set1_ps(unsafe { *x.add(k) });
            for r in 0..R {
                sums[r][t] = _mm512_fmadd_ps(w[r], x, sums[r][t]);
            }
        }
        k += SUMS;
    }
    sums
}
}

/// Converts the whole panels of 256 columns that contain a place, one row each.
fn convert(w: &Matrix, place: TileRegion, converted: &mut Converted) {
    let block = w.block();
    let (panel, bytes) = (place.start / SUPER, block.row_bytes(SUPER).unwrap_or(0));
    let len = (w.cols() - panel * SUPER).min(SUPER);
    for (i, out) in converted.iter_mut().enumerate().take(place.count) {
        let row = w.row(place.row + i);
        dequantize_row(block, &row[panel * bytes..((panel + 1) * bytes).min(row.len())], &mut out[..len]);
    }
}

avx512! {
/// Transposes a place to row vector `r` of the tile, from the matrix if it stores floats, else from `converted`.
#[inline]
fn turn(w: &Matrix, place: TileRegion, tile: &mut Tile, r: usize, converted: &Converted) {
    for k in (0..place.cols).step_by(16) {
        let n = (place.cols - k).min(16);
        let mask = (0xffffu32 >> (16 - n)) as __mmask16;
        let at = place.start + k;
        let mut a = [_mm512_setzero_si512(); 16];
        for (i, a) in a.iter_mut().enumerate() {
            let i = i.min(place.count - 1);
            let row = w.row(place.row + i).as_ptr();
            // SAFETY: the mask names `n` values from column `at` of the row on, which are there; of a converted
            // row, values of its panel.
            *a = unsafe {
                match w.block() {
                    BlockType::Float(FloatType::F32) => _mm512_maskz_loadu_epi32(mask, row.cast::<i32>().add(at)),
                    BlockType::Float(FloatType::F16) => {
                        let halves = _mm256_maskz_loadu_epi16(mask, row.cast::<i16>().add(at));
                        _mm512_castps_si512(_mm512_cvtph_ps(halves))
                    }
                    BlockType::Float(FloatType::BF16) => {
                        let halves = _mm256_maskz_loadu_epi16(mask, row.cast::<i16>().add(at));
                        _mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(halves))
                    }
                    BlockType::Quant(_) => _mm512_maskz_loadu_epi32(mask, converted[i].as_ptr().add(at % SUPER).cast()),
                }
            };
        }
        for (column, to) in transpose16(a).into_iter().zip(&mut tile[k..k + n]) {
            // SAFETY: 64 writable bytes.
            unsafe { _mm512_storeu_si512(to[r].as_mut_ptr().cast(), column) };
        }
    }
}
}

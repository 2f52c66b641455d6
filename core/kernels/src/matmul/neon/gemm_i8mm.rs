//! The engine for rounded activations (see `tiles`) with matrix products of bytes: two tokens times two rows, eight
//! columns at once. Integer sums are exact, so results equal those of the engine with dot products.

use std::arch::aarch64::*;
use std::marker::PhantomData;

use super::features::{i8mm, square};
use super::tile::{NeonFormat, NeonTile, Sums, VECTORS};
use crate::activations::{Int8Rows, Meta};
use crate::blocks::{Format, Matrix, SUPER};
use crate::isa::MatrixProducts;
use crate::matmul::tiles::{self, LANES, TOKENS, TileProduct, TileRegion};
use crate::matmul::types::{Int8Activations, Kernel, KernelChoice, MatmulJob};
use crate::memory::Scratch;

/// The pairs of rows in a tile.
const PAIRS: usize = LANES / 2;

/// Sums of two tokens with two rows each: `[tokens / 2][rows / 2]`.
type Squares = [[int32x4_t; PAIRS]; TOKENS / 2];

/// Tiles of a format, `q` as `[columns / 8][rows / 2][2 rows x 8 columns]`.
struct Square<S: NeonFormat>(PhantomData<S>);

/// The kernel for a format.
pub(super) fn choose<S: NeonFormat>(_: MatrixProducts) -> KernelChoice<Int8Activations> {
    // SAFETY: the token is proof of the feature; the function is for this format.
    KernelChoice { kernel: unsafe { Kernel::new(S::Blocks::QUANT, gemm::<S>) }, tile: LANES }
}

i8mm! {
fn gemm<S: NeonFormat>(job: &mut MatmulJob<'_, Int8Activations>, scratch: &mut Scratch) {
    // SAFETY: the features are this function's own.
    unsafe { tiles::run::<Square<S>, 1>(job, scratch, pack::<S>) }
}
}

i8mm! {
/// Unpacks a place of the weights: see `tiles::Pack`.
///
/// # Safety
/// The place is in the matrix.
unsafe fn pack<S: NeonFormat>(matrix: &Matrix, place: TileRegion, tile: &mut NeonTile, _: usize, _: &mut ()) {
    let w = tile.unpack::<S>(matrix, place);
    for (c, to) in tile.q.as_chunks_mut::<{ 2 * PAIRS }>().0.iter_mut().enumerate() {
        for pair in 0..PAIRS {
            // SAFETY: `16 c + 16 <= 256`, the length of `q`.
            let load = |i: usize| unsafe { vld1q_s8(w[2 * pair + i].q.as_ptr().add(16 * c)) };
            for (i, eight) in eights(load(0), load(1)).into_iter().enumerate() {
                // SAFETY: 16 bytes.
                unsafe { vst1q_s8(to[i * PAIRS + pair].as_mut_ptr(), eight) }
            }
        }
    }
}
}

// SAFETY: a `NeonTile` is numbers, aligned to 64; there is no scratch.
unsafe impl<S: NeonFormat> TileProduct for Square<S> {
    type Form = Int8Activations;
    type Tile = NeonTile;
    type Scratch = ();
    const COLS: usize = SUPER;
    const TOKEN_BYTES: usize = SUPER + size_of::<Meta>();

    i8mm! {
    unsafe fn multiply<const R: usize>(
        tile: &NeonTile,
        x: &Int8Rows,
        tokens: [usize; TOKENS],
        place: TileRegion,
        out: &mut [f32],
    ) {
        let panel = place.start / SUPER;
        let values = tokens.map(|t| x.values(panel, t));
        let meta = tokens.map(|t| x.meta(panel, t));
        let mut totals = [[vdupq_n_s32(0); VECTORS]; TOKENS];
        for part in 0..place.cols / 32 {
            let mut sums = [[vdupq_n_s32(0); PAIRS]; TOKENS / 2];
            for half in 0..2 {
                let sixteen = 2 * part + half;
                add(tile, sixteen, &values, &mut sums);
                if S::Blocks::GROUP == 16 {
                    tile.finish::<S::Blocks>((sixteen, part), &meta, &by_token(&sums), &mut totals);
                    sums = [[vdupq_n_s32(0); PAIRS]; TOKENS / 2];
                }
            }
            if S::Blocks::GROUP == 32 {
                tile.finish::<S::Blocks>((part, part), &meta, &by_token(&sums), &mut totals);
            }
        }
        tile.add_to::<S::Blocks>(&meta, &totals, out);
    }
    }
}

i8mm! {
/// Adds the products of 16 columns.
#[inline]
fn add(tile: &NeonTile, sixteen: usize, x: &[&[i8; SUPER]; TOKENS], sums: &mut Squares) {
    // SAFETY: `16 sixteen + 16 <= 256`: there are 16 in a tile, as in a panel.
    let x = x.map(|x| unsafe { vld1q_s8(x.as_ptr().add(16 * sixteen)) });
    let x = [eights(x[0], x[1]), eights(x[2], x[3])];
    for eight in 0..2 {
        for pair in 0..PAIRS {
            let from = &tile.q[(2 * sixteen + eight) * PAIRS + pair];
            // SAFETY: 16 bytes.
            let w = unsafe { vld1q_s8(from.as_ptr()) };
            for (x, sums) in x.iter().zip(sums.iter_mut()) {
                sums[pair] = square(sums[pair], x[eight], w);
            }
        }
    }
}
}

/// The first eight bytes of both, then the last eight of both.
#[target_feature(enable = "neon")]
#[inline]
fn eights(a: int8x16_t, b: int8x16_t) -> [int8x16_t; 2] {
    let (a, b) = (vreinterpretq_s64_s8(a), vreinterpretq_s64_s8(b));
    [vreinterpretq_s8_s64(vzip1q_s64(a, b)), vreinterpretq_s8_s64(vzip2q_s64(a, b))]
}

/// The sums of each token, four rows to a vector.
#[target_feature(enable = "neon")]
#[inline]
fn by_token(squares: &Squares) -> Sums {
    let mut sums = [[vdupq_n_s32(0); VECTORS]; TOKENS];
    for (two, squares) in squares.iter().enumerate() {
        for v in 0..VECTORS {
            let (a, b) = (vreinterpretq_s64_s32(squares[2 * v]), vreinterpretq_s64_s32(squares[2 * v + 1]));
            sums[2 * two][v] = vreinterpretq_s32_s64(vzip1q_s64(a, b));
            sums[2 * two + 1][v] = vreinterpretq_s32_s64(vzip2q_s64(a, b));
        }
    }
    sums
}

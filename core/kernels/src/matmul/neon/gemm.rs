//! The engine for rounded activations (see `tiles`) with dot products of four bytes: rows in lanes, four columns per
//! dword.

use std::arch::aarch64::*;
use std::marker::PhantomData;

use super::features::{dot_lane, dotprod};
use super::tile::{NeonFormat, NeonTile, Sums, VECTORS, transpose};
use crate::activations::{Int8Rows, Meta};
use crate::blocks::{Format, Matrix, SUPER};
use crate::isa::DotProducts;
use crate::matmul::tiles::{self, LANES, TOKENS, TileProduct, TileRegion};
use crate::matmul::types::{Int8Activations, Kernel, KernelChoice, MatmulJob};
use crate::memory::Scratch;

/// Tiles of a format, `q` as `[columns / 4][rows / 4][4 rows x 4 columns]`.
struct Dots<S: NeonFormat>(PhantomData<S>);

/// The kernel for a format.
pub(super) fn choose<S: NeonFormat>(_: DotProducts) -> KernelChoice<Int8Activations> {
    // SAFETY: the token is proof of the feature; the function is for this format.
    KernelChoice { kernel: unsafe { Kernel::new(S::Blocks::QUANT, gemm::<S>) }, tile: LANES }
}

dotprod! {
fn gemm<S: NeonFormat>(job: &mut MatmulJob<'_, Int8Activations>, scratch: &mut Scratch) {
    // SAFETY: the features are this function's own.
    unsafe { tiles::run::<Dots<S>, 1>(job, scratch, pack::<S>) }
}
}

dotprod! {
/// Unpacks a place of the weights: see `tiles::Pack`.
///
/// # Safety
/// The place is in the matrix.
unsafe fn pack<S: NeonFormat>(matrix: &Matrix, place: TileRegion, tile: &mut NeonTile, _: usize, _: &mut ()) {
    let w = tile.unpack::<S>(matrix, place);
    for (c, to) in tile.q.as_chunks_mut::<{ 4 * VECTORS }>().0.iter_mut().enumerate() {
        for v in 0..VECTORS {
            // SAFETY: `16 c + 16 <= 256`, the length of `q`.
            let load = |i: usize| unsafe { vreinterpretq_s32_s8(vld1q_s8(w[4 * v + i].q.as_ptr().add(16 * c))) };
            let columns = transpose([load(0), load(1), load(2), load(3)]);
            for (i, column) in columns.into_iter().enumerate() {
                // SAFETY: 16 bytes.
                unsafe { vst1q_s8(to[i * VECTORS + v].as_mut_ptr(), vreinterpretq_s8_s32(column)) }
            }
        }
    }
}
}

// SAFETY: a `NeonTile` is numbers, aligned to 64; there is no scratch.
unsafe impl<S: NeonFormat> TileProduct for Dots<S> {
    type Form = Int8Activations;
    type Tile = NeonTile;
    type Scratch = ();
    const COLS: usize = SUPER;
    const TOKEN_BYTES: usize = SUPER + size_of::<Meta>();

    dotprod! {
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
            let mut sums = [[vdupq_n_s32(0); VECTORS]; TOKENS];
            for half in 0..2 {
                let sixteen = 2 * part + half;
                add(tile, sixteen, &values, &mut sums);
                if S::Blocks::GROUP == 16 {
                    tile.finish::<S::Blocks>((sixteen, part), &meta, &sums, &mut totals);
                    sums = [[vdupq_n_s32(0); VECTORS]; TOKENS];
                }
            }
            if S::Blocks::GROUP == 32 {
                tile.finish::<S::Blocks>((part, part), &meta, &sums, &mut totals);
            }
        }
        tile.add_to::<S::Blocks>(&meta, &totals, out);
    }
    }
}

dotprod! {
/// Adds the products of 16 columns.
#[inline]
fn add(tile: &NeonTile, sixteen: usize, x: &[&[i8; SUPER]; TOKENS], sums: &mut Sums) {
    // SAFETY: `16 sixteen + 16 <= 256`: there are 16 in a tile, as in a panel.
    let x = x.map(|x| unsafe { vld1q_s8(x.as_ptr().add(16 * sixteen)) });
    macro_rules! column {
        ($lane:literal) => {
            for v in 0..VECTORS {
                let from = &tile.q[(4 * sixteen + $lane) * VECTORS + v];
                // SAFETY: 16 bytes.
                let w = unsafe { vld1q_s8(from.as_ptr()) };
                for (x, sums) in x.into_iter().zip(sums.iter_mut()) {
                    sums[v] = dot_lane::<$lane>(sums[v], w, x);
                }
            }
        };
    }
    column!(0);
    column!(1);
    column!(2);
    column!(3);
}
}

//! The engine for rounded activations (see `tiles`) with dot products of four bytes: rows in lanes, four columns per
//! dword.

use std::arch::aarch64::*;
use std::marker::PhantomData;

use super::features::{dot_lane, dotprod};
use super::tile::{Sums, Tile, VECTORS, add_to, no_totals};
use crate::activations::{Meta, Quantised};
use crate::blocks::{Format, Matrix, SUPER};
use crate::isa::DotProducts;
use crate::matmul::tiles::{self, Engine, LANES, Place, TOKENS};
use crate::matmul::types::{Choice, Job, Kernel, Rounded};
use crate::memory::Scratch;

/// Tiles of a format, `q` as `[columns / 4][rows / 4][4 rows x 4 columns]`.
struct Dots<F: Format>(PhantomData<F>);

/// The kernel for a format.
pub(super) fn choose<F: Format>(_: DotProducts) -> Choice<Rounded> {
    // SAFETY: the token is proof of the feature; the function is for this format.
    Choice { kernel: unsafe { Kernel::new(F::QUANT, many::<F>) }, tile: LANES }
}

dotprod! {
fn many<F: Format>(job: &mut Job<'_, Rounded>, scratch: &mut Scratch) {
    // SAFETY: the features are this function's own.
    unsafe { tiles::run::<Dots<F>, 1>(job, scratch) }
}
}

// SAFETY: a `Tile` is numbers, aligned to 64; there is no room.
unsafe impl<F: Format> Engine for Dots<F> {
    type Form = Rounded;
    type Tile<const R: usize> = Tile;
    type Room = ();
    const COLS: usize = SUPER;
    const TOKEN_BYTES: usize = SUPER + size_of::<Meta>();

    dotprod! {
    unsafe fn pack<const R: usize>(matrix: &Matrix, place: Place, tile: &mut Tile, _: usize, _: &mut ()) {
        let w = tile.unpack::<F>(matrix, place);
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

    dotprod! {
    unsafe fn multiply<const R: usize>(
        tile: &Tile,
        x: &Quantised,
        tokens: [usize; TOKENS],
        place: Place,
        out: &mut [f32],
    ) {
        let panel = place.start / SUPER;
        let values = tokens.map(|t| x.values(panel, t));
        let meta = tokens.map(|t| x.meta(panel, t));
        let mut totals = no_totals();
        for part in 0..place.cols / 32 {
            let mut sums = [[vdupq_n_s32(0); VECTORS]; TOKENS];
            for half in 0..2 {
                let sixteen = 2 * part + half;
                add(tile, sixteen, &values, &mut sums);
                if F::GROUP == 16 {
                    tile.finish::<F>((sixteen, part), &meta, &sums, &mut totals);
                    sums = [[vdupq_n_s32(0); VECTORS]; TOKENS];
                }
            }
            if F::GROUP == 32 {
                tile.finish::<F>((part, part), &meta, &sums, &mut totals);
            }
        }
        add_to(out, &totals);
    }
    }
}

dotprod! {
/// Adds the products of 16 columns.
#[inline]
fn add(tile: &Tile, sixteen: usize, x: &[&[i8; SUPER]; TOKENS], sums: &mut Sums) {
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

/// A 4 x 4 transpose of dwords.
#[target_feature(enable = "neon")]
#[inline]
fn transpose([a, b, c, d]: [int32x4_t; 4]) -> [int32x4_t; 4] {
    let wide = |v| vreinterpretq_s64_s32(v);
    let (ab, cd) = ([vtrn1q_s32(a, b), vtrn2q_s32(a, b)], [vtrn1q_s32(c, d), vtrn2q_s32(c, d)]);
    let low = |i: usize| vreinterpretq_s32_s64(vtrn1q_s64(wide(ab[i]), wide(cd[i])));
    let high = |i: usize| vreinterpretq_s32_s64(vtrn2q_s64(wide(ab[i]), wide(cd[i])));
    [low(0), low(1), high(0), high(1)]
}

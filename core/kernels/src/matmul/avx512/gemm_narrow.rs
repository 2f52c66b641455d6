//! The engine for the narrow formats' rounded activations: see `tiles`.

use std::marker::PhantomData;

use super::multiply_narrow::{ActivationColumns, multiply};
use super::tile_narrow::{NarrowTile, TileFormat, TileRows, VECTORS, ahead};
use crate::activations::{Int8Rows, Meta};
use crate::blocks::{Format, GroupShape, Matrix, SUPER};
use crate::isa::{Avx512, avx512};
use crate::matmul::tiles::{self, LANES, Pack, TOKENS, TileProduct, TileRegion};
use crate::matmul::types::{Int8Activations, Kernel, KernelChoice, MatmulJob};
use crate::memory::Scratch;

/// The kernel for a format.
pub(super) fn choose<P: TileFormat>(_: Avx512) -> KernelChoice<Int8Activations> {
    // SAFETY: the token is proof of the features; the function is for this format.
    KernelChoice { kernel: unsafe { Kernel::new(P::Blocks::QUANT, gemm::<P>) }, tile: VECTORS * LANES }
}

avx512! {
fn gemm<P: TileFormat>(job: &mut MatmulJob<'_, Int8Activations>, scratch: &mut Scratch) {
    // SAFETY: the features are this function's own.
    unsafe { run::<<P::Blocks as Format>::Shape>(job, scratch, pack::<P>) }
}
}

avx512! {
/// All formats of a shape share this function.
///
/// # Safety
/// The processor has what `pack` needs.
#[inline(never)]
unsafe fn run<S: GroupShape>(
    job: &mut MatmulJob<'_, Int8Activations>,
    scratch: &mut Scratch,
    pack: Pack<NarrowProduct<S>>,
) {
    // SAFETY: the features are this function's own; the promise of the caller.
    unsafe { tiles::run::<NarrowProduct<S>, VECTORS>(job, scratch, pack) }
}
}

avx512! {
/// Unpacks a place of the weights: see `tiles::Pack`.
///
/// # Safety
/// The place is in the matrix.
unsafe fn pack<P: TileFormat>(w: &Matrix, place: TileRegion, tile: &mut NarrowTile, r: usize, _: &mut ()) {
    let rows = TileRows {
        start: w.row(place.row)[place.start / P::Blocks::LEN * P::Blocks::BYTES..].as_ptr(),
        stride: w.row_bytes(),
        last: place.count - 1,
        groups: place.cols / 32,
        ahead: ahead::<P::Blocks>(w, place, VECTORS * LANES),
    };
    // SAFETY: the rows are in the matrix and hold `groups * 32` columns from `start` on, in whole blocks
    // (`Matrix::new`; `start` is a multiple of 256).
    unsafe { P::pack(&rows, tile, r) }
}
}

/// Multiplies tiles of formats of a shape.
struct NarrowProduct<S: GroupShape>(PhantomData<S>);

// SAFETY: a `NarrowTile` is numbers, aligned to 64; there is no scratch.
unsafe impl<S: GroupShape> TileProduct for NarrowProduct<S> {
    type Form = Int8Activations;
    type Tile = NarrowTile;
    type Scratch = ();
    const COLS: usize = SUPER;
    const PREFETCHES: bool = true;
    const PAIRS: bool = true;
    const TOKEN_BYTES: usize = SUPER + size_of::<Meta>();

    avx512! {
    unsafe fn multiply<const R: usize>(
        tile: &NarrowTile,
        x: &Int8Rows,
        tokens: [usize; TOKENS],
        place: TileRegion,
        out: &mut [f32],
    ) {
        // SAFETY: the promise of the caller.
        unsafe { add_tokens::<S, R, TOKENS>(tile, x, tokens, place, out) }
    }
    }

    avx512! {
    unsafe fn multiply_pair<const R: usize>(
        tile: &NarrowTile,
        x: &Int8Rows,
        tokens: [usize; 2],
        place: TileRegion,
        out: &mut [f32],
    ) {
        // SAFETY: the promise of the caller.
        unsafe { add_tokens::<S, R, 2>(tile, x, tokens, place, out) }
    }
    }
}

avx512! {
/// `TileProduct::multiply` for `T` tokens.
///
/// # Safety
/// As there.
#[inline]
unsafe fn add_tokens<S: GroupShape, const R: usize, const T: usize>(
    tile: &NarrowTile,
    x: &Int8Rows,
    tokens: [usize; T],
    place: TileRegion,
    out: &mut [f32],
) {
    let panel = place.start / SUPER;
    let columns = ActivationColumns {
        values: tokens.map(|t| x.values(panel, t).as_ptr()),
        meta: tokens.map(|t| &raw const *x.meta(panel, t)),
    };
    // SAFETY: the pointers are of valid records; the caller promises the length of `out`.
    unsafe { multiply::<S, R, T>(tile, &columns, place.cols / 32, out.as_mut_ptr()) }
}
}

//! The engine for the wide formats' rounded activations: see `tiles`.

use std::marker::PhantomData;

use super::multiply_narrow::ActivationColumns;
use super::multiply_wide::multiply;
use super::tile_narrow::{TileRows, ahead};
use super::tile_wide::{PackWide, VECTORS, WideTile, order};
use crate::activations::{Int8Rows, Meta};
use crate::blocks::{Format, GroupShape, Matrix, SUPER};
use crate::isa::{Avx512, Avx512Bytes, avx512};
use crate::matmul::tiles::{self, LANES, Pack, TOKENS, TileProduct, TileRegion};
use crate::matmul::types::{Int8Activations, Kernel, KernelChoice, MatmulJob};
use crate::memory::Scratch;

/// The kernel for a format.
pub(super) fn choose<P: PackWide>(_: Avx512) -> KernelChoice<Int8Activations> {
    // SAFETY: the token is proof of the features.
    unsafe { kernel::<P>() }
}

/// The kernel for a format whose unpacking needs more features.
pub(super) fn choose_with<P: PackWide>(_: Avx512Bytes) -> KernelChoice<Int8Activations> {
    // SAFETY: the token is proof of those features too.
    unsafe { kernel::<P>() }
}

/// # Safety
/// The processor has AVX-512 VNNI, and what the unpacking of the format needs.
unsafe fn kernel<P: PackWide>() -> KernelChoice<Int8Activations> {
    // SAFETY: the promise of the caller; the function is for this format.
    let kernel = unsafe { Kernel::new(P::Blocks::QUANT, gemm::<P>) };
    KernelChoice {
        kernel: kernel.with_layout(Some(order::<<P::Blocks as Format>::Shape>())),
        tile: VECTORS * LANES,
    }
}

avx512! {
fn gemm<P: PackWide>(job: &mut MatmulJob<'_, Int8Activations>, scratch: &mut Scratch) {
    const { assert!(P::Blocks::SPAN < 128, "a format whose sums would often not fit in 16 bits") }
    // SAFETY: the features are this function's own, and those of the unpacking `kernel`'s caller promised.
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
    pack: Pack<WideProduct<S>>,
) {
    // SAFETY: the features are this function's own; the promise of the caller.
    unsafe { tiles::run::<WideProduct<S>, VECTORS>(job, scratch, pack) }
}
}

avx512! {
/// Unpacks a place of the weights: see `tiles::Pack`.
///
/// # Safety
/// The place is in the matrix; the processor has what the unpacking of the format needs.
unsafe fn pack<P: PackWide>(w: &Matrix, place: TileRegion, tile: &mut WideTile, r: usize, _: &mut ()) {
    let rows = TileRows {
        start: w.row(place.row)[place.start / SUPER * P::Blocks::BYTES..].as_ptr(),
        stride: w.row_bytes(),
        last: place.count - 1,
        groups: SUPER / 32,
        ahead: ahead::<P::Blocks>(w, place, VECTORS * LANES),
    };
    // SAFETY: the rows are in the matrix and hold a whole block from `start` on (`Matrix::new`; `start` is a multiple
    // of 256, the values of a block).
    unsafe { P::pack(&rows, tile, r) }
}
}

/// Multiplies tiles of formats of a shape.
struct WideProduct<S: GroupShape>(PhantomData<S>);

// SAFETY: a `WideTile` is numbers, aligned to 64; there is no scratch.
unsafe impl<S: GroupShape> TileProduct for WideProduct<S> {
    type Form = Int8Activations;
    type Tile = WideTile;
    type Scratch = ();
    const COLS: usize = SUPER;
    const PREFETCHES: bool = true;
    const PAIRS: bool = true;
    const TOKEN_BYTES: usize = SUPER + size_of::<Meta>();

    avx512! {
    unsafe fn multiply<const R: usize>(
        tile: &WideTile,
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
        tile: &WideTile,
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
    tile: &WideTile,
    x: &Int8Rows,
    tokens: [usize; T],
    place: TileRegion,
    out: &mut [f32],
) {
    let first = place.start / SUPER * x.rows();
    let values = x.arranged(order::<S>())[first * SUPER..][..x.rows() * SUPER].as_ptr();
    let meta = x.all_meta()[first..][..x.rows()].as_ptr();
    // SAFETY: the caller promises that the tokens are rows of `x`, of which every panel has all, and the length of
    // `out`.
    unsafe {
        let columns = ActivationColumns {
            values: tokens.map(|t| values.add(t * SUPER)),
            meta: tokens.map(|t| meta.add(t)),
        };
        multiply::<S, R, T>(tile, &columns, out.as_mut_ptr());
    }
}
}

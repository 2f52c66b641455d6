//! The engine for the narrow formats' rounded activations: see `tiles`.

use std::marker::PhantomData;

use super::multiply::{Columns, multiply};
use super::tile::{Rows, Tile, TileFormat, VECTORS};
use crate::activations::{Meta, Quantized};
use crate::blocks::{Format, Matrix, SUPER, Shape};
use crate::isa::{Avx512, avx512};
use crate::matmul::tiles::{self, Engine, LANES, Pass, Place, Product, TOKENS};
use crate::matmul::types::{Choice, Job, Kernel, Rounded};
use crate::memory::Scratch;

/// Tiles of a format, 8-bit products.
struct Whole<P: TileFormat>(PhantomData<P>);

/// The kernel for a format.
pub(super) fn choose<P: TileFormat>(_: Avx512) -> Choice<Rounded> {
    // SAFETY: the token is proof of the features; the function is for this format.
    Choice { kernel: unsafe { Kernel::new(P::Blocks::QUANT, many::<P>) }, tile: VECTORS * LANES }
}

avx512! {
fn many<P: TileFormat>(job: &mut Job<'_, Rounded>, scratch: &mut Scratch) {
    // SAFETY: the features are this function's own.
    unsafe { tiles::run::<Whole<P>, VECTORS>(job, scratch) }
}
}

// SAFETY: a `Tile` is numbers, aligned to 64; there is no scratch.
unsafe impl<P: TileFormat> Engine for Whole<P> {
    type Product = WholeProduct<<P::Blocks as Format>::Shape>;
    type Scratch = ();
    const COLS: usize = SUPER;
    const TOKEN_BYTES: usize = SUPER + size_of::<Meta>();

    avx512! {
    #[inline(never)]
    unsafe fn pack(w: &Matrix, place: Place, tile: &mut Tile, r: usize, _: &mut ()) {
        let rows = Rows {
            start: w.row(place.row)[place.start / P::Blocks::LEN * P::Blocks::BYTES..].as_ptr(),
            stride: w.row_bytes(),
            last: place.count - 1,
            groups: place.cols / 32,
        };
        // SAFETY: the rows are in the matrix and hold `groups * 32` columns from `start` on, in whole blocks
        // (`Matrix::new`; `start` is a multiple of 256).
        unsafe { P::pack(&rows, tile, r) }
    }
    }
}

/// Multiplies tiles of formats of a shape.
struct WholeProduct<S: Shape>(PhantomData<S>);

impl<S: Shape> Product for WholeProduct<S> {
    type Form = Rounded;
    type Tile = Tile;

    avx512! {
    unsafe fn multiply<const R: usize>(
        tile: &Tile,
        x: &Quantized,
        tokens: [usize; TOKENS],
        place: Place,
        out: &mut [f32],
    ) {
        let panel = place.start / SUPER;
        let columns = Columns {
            values: tokens.map(|t| x.values(panel, t).as_ptr()),
            meta: tokens.map(|t| &raw const *x.meta(panel, t)),
        };
        // SAFETY: the pointers are of valid records; the caller promises the length of `out`.
        unsafe { multiply::<S, R, TOKENS>(tile, &columns, place.cols / 32, out.as_mut_ptr()) }
    }
    }

    avx512! {
    #[inline(never)]
    unsafe fn multiply_pass<const R: usize>(tile: &Tile, pass: &Pass<'_, Rounded>, results: &mut [f32]) {
        // SAFETY: the promise of the caller.
        unsafe { pass.multiply::<Self, R>(tile, results) }
    }
    }
}

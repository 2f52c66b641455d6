//! The engine for the wide formats' rounded activations: see `tiles`.

use std::marker::PhantomData;

use super::multiply::Columns;
use super::tile::Rows;
use super::wide_multiply::multiply;
use super::wide_tile::{PackWide, VECTORS, WideTile, order};
use crate::activations::{Meta, Quantized};
use crate::blocks::{Format, Matrix, SUPER, Shape};
use crate::isa::{Avx512, Avx512Bytes, avx512};
use crate::matmul::tiles::{self, Engine, LANES, Pass, Place, Product, TOKENS};
use crate::matmul::types::{Choice, Job, Kernel, Rounded};
use crate::memory::Scratch;

/// Tiles of a wide format, 8-bit products.
struct Pairs<P: PackWide>(PhantomData<P>);

/// The kernel for a format.
pub(super) fn choose<P: PackWide>(_: Avx512) -> Choice<Rounded> {
    // SAFETY: the token is proof of the features.
    unsafe { kernel::<P>() }
}

/// The kernel for a format whose unpacking wants more features.
pub(super) fn choose_with<P: PackWide>(_: Avx512Bytes) -> Choice<Rounded> {
    // SAFETY: the token is proof of those too.
    unsafe { kernel::<P>() }
}

/// # Safety
/// The processor has AVX-512 VNNI, and what the unpacking of the format wants.
unsafe fn kernel<P: PackWide>() -> Choice<Rounded> {
    // SAFETY: the promise of the caller; the function is for this format.
    let kernel = unsafe { Kernel::new(P::Blocks::QUANT, many::<P>) };
    Choice { kernel: kernel.with_order(Some(order::<<P::Blocks as Format>::Shape>())), tile: VECTORS * LANES }
}

avx512! {
fn many<P: PackWide>(job: &mut Job<'_, Rounded>, scratch: &mut Scratch) {
    const { assert!(P::Blocks::SPAN < 128, "a format whose sums would often not fit in 16 bits") }
    // SAFETY: the features are this function's own.
    unsafe { tiles::run::<Pairs<P>, VECTORS>(job, scratch) }
}
}

// SAFETY: a `WideTile` is numbers, aligned to 64; there is no scratch.
unsafe impl<P: PackWide> Engine for Pairs<P> {
    type Product = PairProduct<<P::Blocks as Format>::Shape>;
    type Scratch = ();
    const COLS: usize = SUPER;
    const TOKEN_BYTES: usize = SUPER + size_of::<Meta>();

    avx512! {
    #[inline(never)]
    unsafe fn pack(w: &Matrix, place: Place, tile: &mut WideTile, r: usize, _: &mut ()) {
        let rows = Rows {
            start: w.row(place.row)[place.start / SUPER * P::Blocks::BYTES..].as_ptr(),
            stride: w.row_bytes(),
            last: place.count - 1,
            groups: SUPER / 32,
        };
        // SAFETY: the rows are in the matrix and hold a whole block from `start` on (`Matrix::new`; `start` is a multiple
        // of 256, the values of a block).
        unsafe { P::pack(&rows, tile, r) }
    }
    }
}

/// Multiplies tiles of formats of a shape.
struct PairProduct<S: Shape>(PhantomData<S>);

impl<S: Shape> Product for PairProduct<S> {
    type Form = Rounded;
    type Tile = WideTile;

    avx512! {
    unsafe fn multiply<const R: usize>(
        tile: &WideTile,
        x: &Quantized,
        tokens: [usize; TOKENS],
        place: Place,
        out: &mut [f32],
    ) {
        let panel = place.start / SUPER;
        let first = panel * x.rows();
        let values = x.arranged(order::<S>())[first * SUPER..][..x.rows() * SUPER].as_ptr();
        let meta = x.all_meta()[first..][..x.rows()].as_ptr();
        // SAFETY: the caller promises that the tokens are rows of `x`, of which every panel has all, and the length of `out`.
        unsafe {
            let columns = Columns {
                values: tokens.map(|t| values.add(t * SUPER)),
                meta: tokens.map(|t| meta.add(t)),
            };
            multiply::<S, R, TOKENS>(tile, &columns, out.as_mut_ptr());
        }
    }
    }

    avx512! {
    #[inline(never)]
    unsafe fn multiply_pass<const R: usize>(tile: &WideTile, pass: &Pass<'_, Rounded>, results: &mut [f32]) {
        // SAFETY: the promise of the caller.
        unsafe { pass.multiply::<Self, R>(tile, results) }
    }
    }
}

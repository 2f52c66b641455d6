//! The engine for rounded activations: see `tiles`.

use std::marker::PhantomData;

use super::features::avx512;
use super::multiply::{Columns, multiply};
use super::tile::{Rows, Tile, TileFormat};
use crate::activations::Quantised;
use crate::blocks::{Format, SUPER};
use crate::matmul::job::{Input, Job, Kernel};
use crate::matmul::tiles::{self, Engine, Place, TOKENS};

/// The rows of a large tile: three vectors of 16.
pub(super) const TILE_ROWS: usize = 48;

/// Tiles of a format, 8-bit products.
struct Whole<P: TileFormat>(PhantomData<P>);

/// The kernel for a format.
pub(super) fn kernel<P: TileFormat>() -> Kernel {
    many::<P>
}

avx512! {
unsafe fn many<P: TileFormat>(job: &Job<'_>) {
    // SAFETY: the promise of the caller.
    unsafe { tiles::run::<Whole<P>, 3>(job) }
}
}

impl<P: TileFormat> Engine for Whole<P> {
    const COLS: usize = SUPER;
    type Tile<const R: usize> = Tile<R>;
    type Input<'a> = &'a Quantised;

    fn input<'a>(job: &Job<'a>) -> Option<&'a Quantised> {
        match job.x {
            Input::Rounded(x) => Some(x),
            _ => None,
        }
    }

    avx512! {
    unsafe fn pack<const R: usize>(job: &Job<'_>, place: Place, tile: &mut Tile<R>, r: usize) {
        let rows = Rows {
            start: job.w.row(place.row)[place.start / P::Blocks::LEN * P::Blocks::BYTES..].as_ptr(),
            stride: job.w.row_bytes(),
            last: place.count - 1,
            groups: place.cols / 32,
        };
        // SAFETY: the rows are in the matrix and hold `groups * 32` columns from `start` on, in whole blocks
        // (`Matrix::new`; `start` is a multiple of 256).
        unsafe { P::pack(&rows, tile, r) }
    }
    }

    avx512! {
    unsafe fn multiply<const R: usize>(
        tile: &Tile<R>,
        x: &Quantised,
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
        unsafe { multiply::<P::Blocks, R, TOKENS>(tile, &columns, place.cols / 32, out.as_mut_ptr()) }
    }
    }
}

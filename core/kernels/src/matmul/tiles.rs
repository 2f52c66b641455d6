//! The walk of the many-row kernels: tiles of weights are unpacked once, all tokens run over each, results wait in
//! a scratch in the second-level cache until the last columns are done.

use std::cell::RefCell;

use super::job::Job;
use crate::activations::AlignedBytes;

/// Tokens that run over a tile in one pass.
const PASS: usize = 512;
/// Tokens that are multiplied together.
pub(super) const TOKENS: usize = 4;
/// The rows of one row vector.
pub(super) const LANES: usize = 16;

thread_local! {
    /// A tile, what an engine wants besides, and the results of a pass; kept between jobs.
    static SCRATCH: RefCell<AlignedBytes> = RefCell::default();
}

/// A part of a weight matrix: `count` rows (1 to 16) from `row` on, `cols` columns from `start` on.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) row: usize,
    pub(super) count: usize,
    pub(super) start: usize,
    pub(super) cols: usize,
}

/// Unpacks tiles and multiplies them.
pub(super) trait Engine {
    /// The columns of a tile.
    const COLS: usize;
    /// A tile of `R` row vectors; all bits must be valid.
    type Tile<const R: usize>;
    /// The form of the activations.
    type Input<'a>: Copy;

    /// The activations of a job, if they have the form that this engine wants.
    fn input<'a>(job: &Job<'a>) -> Option<Self::Input<'a>>;

    /// Unpacks a place as row vector `r` of a tile; lanes without a row repeat the last one.
    ///
    /// # Safety
    /// The processor has the engine's instruction set; the place is in the job's matrix.
    unsafe fn pack<const R: usize>(job: &Job<'_>, place: Place, tile: &mut Self::Tile<R>, r: usize);

    /// Adds the products of a tile with four tokens to `out`, `[4][16 R]`.
    ///
    /// # Safety
    /// As `pack`; the tokens are rows of the activations; `out` has `4 * 16 * R` floats.
    unsafe fn multiply<const R: usize>(
        tile: &Self::Tile<R>,
        x: Self::Input<'_>,
        tokens: [usize; TOKENS],
        place: Place,
        out: &mut [f32],
    );
}

/// Computes a job with large tiles of `R` row vectors and, for what is left, small ones of one.
///
/// # Safety
/// As for a `Kernel`: the engine's instruction set is there, the job's columns of the output are this thread's.
#[inline(always)]
pub(super) unsafe fn run<E: Engine, const R: usize>(job: &Job<'_>) {
    let Some(x) = E::input(job) else { return };
    let tile_bytes = size_of::<E::Tile<R>>().next_multiple_of(64);
    let mut scratch = SCRATCH.take();
    scratch.grow(tile_bytes + PASS * LANES * R * size_of::<f32>());
    let (tile, results) = scratch.split(tile_bytes);
    let tile = tile.as_mut_ptr();
    let mut row = 0;
    while row < job.w.rows() {
        // SAFETY: the scratch is 64-aligned and holds a large tile, so a small one too; all bits are valid; nobody
        // else borrows it.
        unsafe {
            if job.w.rows() - row >= LANES * R {
                one_tile::<E, R>(job, x, row, &mut *tile.cast(), results);
                row += LANES * R;
            } else {
                one_tile::<E, 1>(job, x, row, &mut *tile.cast(), results);
                row += LANES;
            }
        }
    }
    SCRATCH.set(scratch);
}

/// Up to `16 * R` rows of the weights, from `row` on, times all tokens.
#[inline(always)]
unsafe fn one_tile<E: Engine, const R: usize>(
    job: &Job<'_>,
    x: E::Input<'_>,
    row: usize,
    tile: &mut E::Tile<R>,
    results: &mut [f32],
) {
    let width = LANES * R;
    let rows = width.min(job.w.rows() - row);
    for first in (0..job.tokens.len()).step_by(PASS) {
        let count = PASS.min(job.tokens.len() - first);
        let results = &mut results[..count.next_multiple_of(TOKENS) * width];
        results.fill(0.0);
        for start in (0..job.w.cols()).step_by(E::COLS) {
            let cols = (job.w.cols() - start).min(E::COLS);
            let mut place = Place { row, count: 0, start, cols };
            for r in 0..rows.div_ceil(LANES) {
                place.row = row + LANES * r;
                place.count = (rows - LANES * r).min(LANES);
                // SAFETY: the place is in the matrix; the instruction set is the caller's promise.
                unsafe { E::pack(job, place, tile, r) };
            }
            for (n, results) in results.chunks_exact_mut(TOKENS * width).enumerate() {
                let token = |t: usize| job.tokens.row(first + (n * TOKENS + t).min(count - 1));
                // SAFETY: tokens are rows of the activations (`Tokens`); the chunk has this length.
                unsafe { E::multiply(tile, x, std::array::from_fn(token), place, results) };
            }
        }
        for (n, values) in results.chunks_exact(width).take(count).enumerate() {
            // SAFETY: the caller of a kernel gives this task these columns.
            unsafe { job.output.store(first + n, job.first_row + row, &values[..rows]) };
        }
    }
}

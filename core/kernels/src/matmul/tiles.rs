//! The walk of the many-row kernels: tiles of weights are unpacked once, all tokens run over each, results wait in
//! the second-level cache until the last columns are done.

use super::prefetch::Ahead;
use super::types::{Columns, Form, Job, Tokens};
use crate::blocks::Matrix;
use crate::caches::Caches;
use crate::memory::Scratch;

/// Tokens that are multiplied together.
pub(super) const TOKENS: usize = 4;
/// The rows of one row vector.
pub(super) const LANES: usize = 16;
/// The most tiles that stand side by side.
const MOST_TILES: usize = 4;

/// A part of a weight matrix: `count` rows (1 to 16) from `row` on, `cols` columns from `start` on.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) row: usize,
    pub(super) count: usize,
    pub(super) start: usize,
    pub(super) cols: usize,
}

/// Unpacks tiles and multiplies them.
///
/// # Safety
/// All bits are valid for `Tile` and `Room`, neither is aligned to more than 64 bytes, and the size of `Tile` is a
/// multiple of 64.
pub(super) unsafe trait Engine {
    /// The form of the activations.
    type Form: Form;
    /// A tile of `R` row vectors.
    type Tile<const R: usize>;
    /// What `pack` wants besides.
    type Room;
    /// The columns of a tile.
    const COLS: usize;
    /// The bytes of activations that a token has in the columns of a tile.
    const TOKEN_BYTES: usize;

    /// Unpacks a place as row vector `r` of a tile; lanes without a row repeat the last one.
    ///
    /// # Safety
    /// The processor has the engine's instruction set; the place is in the matrix.
    unsafe fn pack<const R: usize>(
        w: &Matrix,
        place: Place,
        tile: &mut Self::Tile<R>,
        r: usize,
        room: &mut Self::Room,
    );

    /// Adds the products of a tile with four tokens to `out`, `[4][16 R]`.
    ///
    /// # Safety
    /// As `pack`; the tokens are rows of the activations; `out` has `4 * 16 * R` floats.
    unsafe fn multiply<const R: usize>(
        tile: &Self::Tile<R>,
        x: <Self::Form as Form>::Rows<'_>,
        tokens: [usize; TOKENS],
        place: Place,
        out: &mut [f32],
    );
}

/// How much is done at a time. No result depends on it: each element sums its columns in the same order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tiling {
    /// Tiles side by side, which share the first-level cache with the activations of four tokens.
    tiles: usize,
    /// Tokens that run over them in one pass: their results and activations fill half of the second-level cache.
    pass: usize,
}

impl Tiling {
    /// For tiles of `tile` bytes, with so many bytes of results and, per tile, of activations for each token.
    fn new(caches: Caches, tile: usize, result: usize, activations: usize, tokens: usize) -> Tiling {
        let tiles = (caches.l1d * 3 / 4 / tile).clamp(1, MOST_TILES);
        let most = (caches.l2 / 2 / (result + tiles * activations)).max(64);
        // Passes of about the same length.
        let pass = tokens.div_ceil(tokens.div_ceil(most).max(1));
        Tiling { tiles, pass: pass.next_multiple_of(TOKENS) }
    }
}

/// What a walk works on besides the output.
struct Walk<'a, E: Engine> {
    w: Matrix<'a>,
    x: <E::Form as Form>::Rows<'a>,
    tokens: Tokens<'a>,
    pass: usize,
}

/// Computes a job with large tiles of `R` row vectors and, for what is left, small ones of one.
///
/// # Safety
/// The engine's instruction set is there.
#[inline(always)]
pub(super) unsafe fn run<E: Engine, const R: usize>(job: &mut Job<'_, E::Form>, scratch: &mut Scratch) {
    let tile_bytes = size_of::<E::Tile<R>>();
    let result_bytes = LANES * R * size_of::<f32>();
    let tiling = Tiling::new(job.caches, tile_bytes, result_bytes, E::TOKEN_BYTES, job.tokens.len());
    let (tiles_bytes, room_bytes) = (tiling.tiles * tile_bytes, size_of::<E::Room>().next_multiple_of(64));
    let bytes = scratch.bytes(tiles_bytes + room_bytes + tiling.pass * result_bytes);
    let (tiles, rest) = bytes.split_at_mut(tiles_bytes);
    let (room, results) = rest.split_at_mut(room_bytes);
    let (tiles, room) = (tiles.as_mut_ptr(), room.as_mut_ptr().cast::<E::Room>());
    // SAFETY: the bytes begin on a cache line, so do their multiples of 64; any bits are valid floats.
    let results = unsafe { std::slice::from_raw_parts_mut(results.as_mut_ptr().cast(), results.len() / 4) };
    let walk = Walk::<E> { w: job.w, x: job.x, tokens: job.tokens, pass: tiling.pass };
    let mut row = 0;
    while row < walk.w.rows() {
        // SAFETY: the scratch is aligned and holds so many large tiles, so small ones too, and the room; all bits are
        // valid (`Engine`); nobody else borrows them.
        unsafe {
            if walk.w.rows() - row >= LANES * R {
                let tiles = std::slice::from_raw_parts_mut(tiles.cast(), tiling.tiles);
                walk.rows::<R>(row, tiles, &mut *room, results, &mut job.out);
                row += LANES * R;
            } else {
                let tiles = std::slice::from_raw_parts_mut(tiles.cast(), tiling.tiles);
                walk.rows::<1>(row, tiles, &mut *room, results, &mut job.out);
                row += LANES;
            }
        }
    }
}

impl<'a, E: Engine> Walk<'a, E> {
    /// What will be unpacked once the tiles before column `start` of the rows from `row` on are done for the tokens
    /// before `token`.
    fn after(&self, row: usize, width: usize, token: usize, start: usize, tiles: usize) -> Ahead<'a> {
        let wide = tiles * E::COLS;
        if start < self.w.cols() {
            return Ahead::new(self.w, (row, row + width), (start, start + wide));
        }
        let row = if token < self.tokens.len() { row } else { row + width };
        Ahead::new(self.w, (row, row + width), (0, wide))
    }

    /// Up to `16 * R` rows of the weights, from `row` on, times all tokens.
    ///
    /// # Safety
    /// As for `run`.
    #[inline(always)]
    unsafe fn rows<const R: usize>(
        &self,
        row: usize,
        tiles: &mut [E::Tile<R>],
        room: &mut E::Room,
        results: &mut [f32],
        out: &mut Columns,
    ) {
        let width = LANES * R;
        let rows = width.min(self.w.rows() - row);
        for first in (0..self.tokens.len()).step_by(self.pass) {
            let count = self.pass.min(self.tokens.len() - first);
            let results = &mut results[..count.next_multiple_of(TOKENS) * width];
            results.fill(0.0);
            for start in (0..self.w.cols()).step_by(tiles.len() * E::COLS) {
                let places = (start..self.w.cols()).step_by(E::COLS).take(tiles.len());
                let places = places.map(|start| {
                    let cols = (self.w.cols() - start).min(E::COLS);
                    Place { row, count: rows.min(LANES), start, cols }
                });
                for (place, tile) in places.clone().zip(tiles.iter_mut()) {
                    for r in 0..rows.div_ceil(LANES) {
                        let count = (rows - LANES * r).min(LANES);
                        let place = Place { row: row + LANES * r, count, ..place };
                        // SAFETY: the place is in the matrix; the instruction set is the caller's promise.
                        unsafe { E::pack(&self.w, place, tile, r, room) };
                    }
                }
                let mut ahead =
                    self.after(row, width, first + count, start + tiles.len() * E::COLS, tiles.len());
                let lines = ahead.lines().div_ceil(count.div_ceil(TOKENS));
                for (n, results) in results.chunks_exact_mut(TOKENS * width).enumerate() {
                    ahead.ask(lines);
                    let token = |t: usize| self.tokens.row(first + (n * TOKENS + t).min(count - 1));
                    let tokens = std::array::from_fn(token);
                    for (place, tile) in places.clone().zip(tiles.iter()) {
                        // SAFETY: tokens are rows of the activations (`Tokens`); the chunk has this length.
                        unsafe { E::multiply(tile, self.x, tokens, place, results) };
                    }
                }
            }
            for (n, values) in results.chunks_exact(width).take(count).enumerate() {
                out.store(first + n, row, &values[..rows]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_follow_the_caches() {
        let caches = |l1d: usize, l2: usize| Caches { l1d: l1d << 10, l2: l2 << 10 };
        let tiling = |caches, tokens| Tiling::new(caches, 17_088, 192, 512, tokens);
        assert_eq!(tiling(caches(32, 1024), 512), Tiling { tiles: 1, pass: 512 });
        assert_eq!(tiling(caches(32, 256), 512), Tiling { tiles: 1, pass: 172 });
        assert_eq!(tiling(caches(48, 2048), 2048), Tiling { tiles: 2, pass: 684 });
        assert_eq!(tiling(caches(1024, 64), 5), Tiling { tiles: MOST_TILES, pass: 8 });
    }
}

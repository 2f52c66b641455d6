//! The loop of the matrix-matrix kernels: each tile of weights is unpacked once and multiplied with all tokens. Results
//! stay in the second-level cache until the last columns are done.

use super::prefetch::NextTile;
use super::types::{InputForm, MatmulJob, OutputColumns, TokenSelection};
use crate::blocks::Matrix;
use crate::caches::Caches;
use crate::memory::Scratch;

/// Tokens that are multiplied together.
pub(super) const TOKENS: usize = 4;
/// The rows of one row vector.
pub(super) const LANES: usize = 16;
/// The fewest tokens of a pass.
const FEWEST: usize = 64;

/// A part of a weight matrix: `count` rows (1 to 16) from `row` on, `cols` columns from `start` on.
#[derive(Clone, Copy)]
pub(super) struct TileRegion {
    pub(super) row: usize,
    pub(super) count: usize,
    pub(super) start: usize,
    pub(super) cols: usize,
}

/// Multiplies tiles of unpacked weights, whatever format they came in.
///
/// # Safety
/// All bits are valid for the tile and for `Scratch`, neither has an alignment of more than 64 bytes, and the size of a
/// tile is a multiple of 64.
pub(super) unsafe trait TileProduct: Sized {
    /// The form of the activations.
    type Form: InputForm;
    /// Unpacked weights: as many row vectors as a large tile has.
    type Tile;
    /// Further memory that unpacking writes.
    type Scratch;
    /// The columns of a tile.
    const COLS: usize;
    /// The bytes of activations that a token has in the columns of a tile.
    const TOKEN_BYTES: usize;

    /// Adds the products of the first `R` row vectors of a tile with four tokens to `out`, `[4][16 R]`.
    ///
    /// # Safety
    /// The processor has the instruction set; the tokens are rows of the activations; `out` has `4 * 16 * R` floats.
    unsafe fn multiply<const R: usize>(
        tile: &Self::Tile,
        x: <Self::Form as InputForm>::Rows<'_>,
        tokens: [usize; TOKENS],
        place: TileRegion,
        out: &mut [f32],
    );

    /// Whether unpacking prefetches what is unpacked next. If not, it is prefetched while the tile is multiplied.
    const PREFETCHES: bool = false;
    /// Whether two tokens are multiplied faster than four.
    const PAIRS: bool = false;

    /// The same for two tokens, with `[2][16 R]` of `out`, if `PAIRS`.
    ///
    /// # Safety
    /// As `multiply`.
    #[inline(always)]
    unsafe fn multiply_pair<const R: usize>(
        tile: &Self::Tile,
        x: <Self::Form as InputForm>::Rows<'_>,
        [first, second]: [usize; 2],
        place: TileRegion,
        out: &mut [f32],
    ) {
        // SAFETY: the promise of the caller.
        unsafe { Self::multiply::<R>(tile, x, [first, second, second, second], place, out) }
    }
}

/// Unpacks a place of a matrix as row vector `r` of a tile; lanes without a row repeat the last one. The processor must
/// have the instruction set of the function, and the place must be in the matrix.
pub(super) type Pack<G> = unsafe fn(
    w: &Matrix,
    place: TileRegion,
    tile: &mut <G as TileProduct>::Tile,
    r: usize,
    scratch: &mut <G as TileProduct>::Scratch,
);

/// How many tokens a tile is multiplied with in one pass: their results and activations, which take so many bytes each,
/// fill half of the second-level cache. No result depends on it: each element sums its columns in the same order.
///
/// A tile takes at most 24 KiB, which fits into every first-level cache (several tiles in the free part of a larger
/// cache were up to a tenth slower than one).
fn tokens_per_pass(caches: Caches, token_bytes: usize, tokens: usize) -> usize {
    let most = (caches.l2 / 2 / token_bytes).max(FEWEST);
    // Passes of about the same length.
    tokens.div_ceil(tokens.div_ceil(most).max(1)).next_multiple_of(TOKENS)
}

/// What the loop needs besides the output.
struct TileLoop<'a, G: TileProduct> {
    w: Matrix<'a>,
    x: <G::Form as InputForm>::Rows<'a>,
    tokens: TokenSelection<'a>,
    pass: usize,
    pack: Pack<G>,
}

/// Computes a job with large tiles of `R` row vectors and, for the remaining rows, with small tiles of one.
///
/// # Safety
/// The processor has the instruction sets of `G` and of `pack`.
#[inline(always)]
pub(super) unsafe fn run<G: TileProduct, const R: usize>(
    job: &mut MatmulJob<'_, G::Form>,
    scratch: &mut Scratch,
    pack: Pack<G>,
) {
    let (tile_bytes, extra_bytes) = (size_of::<G::Tile>(), size_of::<G::Scratch>().next_multiple_of(64));
    let result_bytes = LANES * R * size_of::<f32>();
    let pass = tokens_per_pass(job.caches, result_bytes + G::TOKEN_BYTES, job.tokens.len());
    let bytes = scratch.bytes(tile_bytes + extra_bytes + pass * result_bytes);
    let (tile, rest) = bytes.split_at_mut(tile_bytes);
    let (extra, results) = rest.split_at_mut(extra_bytes);
    let (tile, extra) = (tile.as_mut_ptr().cast::<G::Tile>(), extra.as_mut_ptr().cast::<G::Scratch>());
    // SAFETY: the bytes begin on a cache line, and so do their multiples of 64; any bits are valid floats.
    let results = unsafe { std::slice::from_raw_parts_mut(results.as_mut_ptr().cast(), results.len() / 4) };
    let all = TileLoop::<G> { w: job.w, x: job.x, tokens: job.tokens, pass, pack };
    let mut row = 0;
    while row < all.w.rows() {
        // SAFETY: the scratch is aligned and holds a tile and the memory that unpacking writes; all bits are valid
        // (`TileProduct`); no other borrow of them exists.
        unsafe {
            // A tile of one row vector has no smaller one.
            if const { R > 1 } && all.w.rows() - row < LANES * R {
                all.rows::<1>(row, &mut *tile, &mut *extra, results, &mut job.out);
                row += LANES;
            } else {
                all.rows::<R>(row, &mut *tile, &mut *extra, results, &mut job.out);
                row += LANES * R;
            }
        }
    }
}

impl<'a, G: TileProduct> TileLoop<'a, G> {
    /// The part of the matrix that is unpacked once the columns before `start` of the `width` rows from `row` on are
    /// done for the tokens before `token`.
    fn after(&self, (row, width): (usize, usize), token: usize, start: usize) -> NextTile<'a> {
        if start < self.w.cols() {
            return NextTile::new(self.w, (row, row + width), (start, start + G::COLS));
        }
        let row = if token < self.tokens.len() { row } else { row + width };
        NextTile::new(self.w, (row, row + width), (0, G::COLS))
    }

    /// Up to `16 * R` rows of the weights, from `row` on, times all tokens.
    ///
    /// # Safety
    /// As for `run`.
    #[inline(always)]
    unsafe fn rows<const R: usize>(
        &self,
        row: usize,
        tile: &mut G::Tile,
        extra: &mut G::Scratch,
        results: &mut [f32],
        out: &mut OutputColumns,
    ) {
        let width = LANES * R;
        let rows = width.min(self.w.rows() - row);
        for first in (0..self.tokens.len()).step_by(self.pass) {
            let count = self.pass.min(self.tokens.len() - first);
            let results = &mut results[..count.next_multiple_of(TOKENS) * width];
            results.fill(0.0);
            for start in (0..self.w.cols()).step_by(G::COLS) {
                let cols = (self.w.cols() - start).min(G::COLS);
                let mut place = TileRegion { row, count: 0, start, cols };
                for r in 0..rows.div_ceil(LANES) {
                    place.row = row + LANES * r;
                    place.count = (rows - LANES * r).min(LANES);
                    // SAFETY: the place is in the matrix; the caller promises the instruction set.
                    unsafe { (self.pack)(&self.w, place, tile, r, extra) };
                }
                let mut next = self.after((row, width), first + count, start + G::COLS);
                let lines = next.lines().div_ceil(count.div_ceil(TOKENS));
                for (n, results) in results.chunks_exact_mut(TOKENS * width).enumerate() {
                    if const { !G::PREFETCHES } {
                        next.ask(lines);
                    }
                    let here = n * TOKENS..count.min((n + 1) * TOKENS);
                    let token = |t: usize| self.tokens.row(first + (here.start + t).min(count - 1));
                    // SAFETY: tokens are rows of the activations (`TokenSelection`); the chunk has this length.
                    unsafe {
                        if const { G::PAIRS } && here.len() <= 2 {
                            G::multiply_pair::<R>(tile, self.x, std::array::from_fn(token), place, results);
                        } else {
                            G::multiply::<R>(tile, self.x, std::array::from_fn(token), place, results);
                        }
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
    fn passes_follow_the_second_cache() {
        let pass = |l2: usize, tokens| tokens_per_pass(Caches { l1d: 32 << 10, l2: l2 << 10 }, 704, tokens);
        assert_eq!(pass(1024, 512), 512);
        assert_eq!(pass(256, 512), 172);
        assert_eq!(pass(2048, 2048), 1024);
        assert_eq!(pass(8, 1000), 64);
        assert_eq!(pass(1024, 5), 8);
    }
}

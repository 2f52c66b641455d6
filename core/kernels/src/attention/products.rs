//! Scores of many rows against a tile of keys, whose lanes are keys.

#![allow(
    clippy::needless_range_loop,
    reason = "loops over registers of constant number read better by index"
)]

use super::BLOCK;
use crate::simd::{Kernel, LANES, Simd};

/// Chains of additions of a score: its elements `j`, `j + 4`, `j + 8` ... are chain `j`.
const CHAINS: usize = 4;

/// `scores[row, key] = q[row] . key` in the order of [`super::rows::Scores`], for the first `keys` keys of the tile and some
/// more.
pub(super) struct TileScores<'a> {
    /// `[rows, dim]`.
    pub(super) q: &'a [f32],
    pub(super) dim: usize,
    /// `[dim, 64]`.
    pub(super) tile: &'a [f32],
    pub(super) keys: usize,
    /// One of 64 scores per row.
    pub(super) scores: &'a mut [[f32; BLOCK]],
}

impl Kernel for TileScores<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(mut self, s: S) {
        match S::REGISTERS {
            32 => self.tiled::<S, 6, 2>(s),
            8 => self.tiled::<S, 3, 1>(s),
            _ => self.tiled::<S, 1, 1>(s),
        }
    }
}

impl TileScores<'_> {
    /// In tiles of up to `R` rows and `C` vectors of keys.
    #[inline(always)]
    fn tiled<S: Simd, const R: usize, const C: usize>(&mut self, s: S) {
        let rows = self.scores.len().min(self.q.len() / self.dim);
        for vector in (0..self.keys.min(BLOCK).div_ceil(LANES)).step_by(C) {
            let mut row = 0;
            while row < rows {
                row += match rows - row {
                    n if n >= R => self.tile::<S, R, C>(s, row, vector),
                    n if n >= 4 && R > 4 => self.tile::<S, 4, C>(s, row, vector),
                    n if n >= 2 && R > 2 => self.tile::<S, 2, C>(s, row, vector),
                    _ => self.tile::<S, 1, C>(s, row, vector),
                };
            }
        }
    }

    /// The rows `row..row + R` against `C` vectors of keys (a divisor of four). Returns `R`.
    #[inline(always)]
    fn tile<S: Simd, const R: usize, const C: usize>(&mut self, s: S, row: usize, vector: usize) -> usize {
        let dim = self.dim;
        let q = self.q[row * dim..(row + R) * dim].as_ptr();
        let tile = self.tile[..dim * BLOCK].as_ptr().wrapping_add(vector * LANES);
        let mut sums = [[s.splat(0.0); C]; R];
        for chain in 0..CHAINS {
            let mut own = [[s.splat(0.0); C]; R];
            for k in (chain..dim).step_by(CHAINS) {
                let mut line = [s.splat(0.0); C];
                for c in 0..C {
                    // SAFETY: line `k` of the tile has 64 elements, of which the vectors `vector..vector + C` are some.
                    line[c] = unsafe { s.load_ptr(tile.add(k * BLOCK + c * LANES)) };
                }
                for r in 0..R {
                    // SAFETY: `q` has R rows of `dim` elements.
                    let factor = s.splat(unsafe { *q.add(r * dim + k) });
                    for c in 0..C {
                        own[r][c] = s.fma(factor, line[c], own[r][c]);
                    }
                }
            }
            for r in 0..R {
                for c in 0..C {
                    sums[r][c] = if chain == 0 { own[r][c] } else { s.add(sums[r][c], own[r][c]) };
                }
            }
        }
        for r in 0..R {
            for c in 0..C {
                s.store(&mut self.scores[row + r].as_chunks_mut::<LANES>().0[vector + c], sums[r][c]);
            }
        }
        R
    }
}

//! The two inner loops of decode: scores of a block of keys, and the weighted sum of its values, for all heads of a
//! group, reading each row of the cache once.

#![allow(
    clippy::needless_range_loop,
    reason = "loops over registers of constant number read better by index"
)]

use super::BLOCK;
use super::cache::{Addresses, F16, F32, Format, Q8};
use crate::kv::KvType;
use crate::simd::{Kernel, LANES, Simd};

/// The rows that will be read soon, asked for line after line in the order of memory: what prefetchers and the
/// memory's own pages like best (measured: head by head reads at less than half the rate).
pub(super) struct Prefetch {
    rows: Addresses,
    /// Lines of 64 bytes per row, and per key and head if all rows are to be asked for in one round of the heads.
    lines: usize,
    per_key: usize,
    row: usize,
    line: usize,
}

impl Prefetch {
    /// `rows` with `bytes` each, asked for while `heads` heads go over a block.
    pub(super) fn new(rows: Addresses, bytes: usize, heads: usize) -> Prefetch {
        let lines = bytes.div_ceil(64);
        Prefetch { rows, lines, per_key: lines.div_ceil(heads), row: 0, line: 0 }
    }

    /// Asks for the share of `keys` keys.
    #[inline(always)]
    pub(super) fn ask<S: Simd>(&mut self, s: S, keys: usize) {
        for _ in 0..keys * self.per_key {
            if self.row >= BLOCK {
                return;
            }
            s.prefetch(self.rows[self.row].wrapping_add(64 * self.line));
            self.line += 1;
            if self.line >= self.lines {
                (self.row, self.line) = (self.row + 1, 0);
            }
        }
    }
}

/// `scores[head, key] = q[head] . key` for the keys of `span`; a few around them may be written too. Four chains of fused
/// additions over the elements `j`, `j + 4`, `j + 8` ..., added up in ascending order of `j`.
pub(super) struct Scores<'a> {
    pub(super) kind: KvType,
    pub(super) heads: usize,
    /// `[heads, dim]`, dim a multiple of sixteen: that of the rows.
    pub(super) q: &'a [f32],
    pub(super) rows: &'a Addresses,
    /// What will be read in the next step: asked for along the way.
    pub(super) ahead: &'a mut Prefetch,
    pub(super) span: (usize, usize),
    /// `[heads, 64]`.
    pub(super) scores: &'a mut [f32],
}

impl Kernel for Scores<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        match self.kind {
            KvType::F32 => self.all::<S, F32>(s),
            KvType::F16 => self.all::<S, F16>(s),
            KvType::Q8_0 => self.all::<S, Q8>(s),
        }
    }
}

/// Keys whose scores are added up together.
const KEYS: usize = LANES;

impl Scores<'_> {
    /// As many heads at a time as registers allow: each key is widened once for them.
    #[inline(always)]
    fn all<S: Simd, F: Format>(mut self, s: S) {
        let mut head = 0;
        while head < self.heads {
            head += match (S::REGISTERS, self.heads - head) {
                (32, 4..) => self.heads_at::<S, F, 4>(s, head),
                (8.., 2..) => self.heads_at::<S, F, 2>(s, head),
                _ => self.heads_at::<S, F, 1>(s, head),
            };
        }
    }

    /// `H` heads from `head` on. Gives `H`.
    #[inline(always)]
    fn heads_at<S: Simd, F: Format, const H: usize>(&mut self, s: S, head: usize) -> usize {
        for key in (self.span.0 / KEYS * KEYS..self.span.1).step_by(KEYS) {
            // Of key `key + 4 k + i` the four chains are in quarter k of vector i.
            let mut chains = [[s.splat(0.0); 4]; H];
            for i in 0..4 {
                let own = self.four_keys::<S, F, H>(s, head, key + i);
                for h in 0..H {
                    chains[h][i] = own[h];
                }
                if head == 0 {
                    self.ahead.ask(s, KEYS / 4);
                }
            }
            for h in 0..H {
                let [a, b, c, d] = s.transpose_in_quarters(chains[h]);
                let scores = &mut self.scores[(head + h) * BLOCK + key..][..KEYS];
                // SAFETY: sixteen elements.
                unsafe { s.store_ptr(scores.as_mut_ptr(), s.add(s.add(s.add(a, b), c), d)) };
            }
        }
        H
    }

    /// The chains of the keys `key`, `key + 4`, `key + 8` and `key + 12`, a key to a quarter, a chain to a lane of it.
    #[inline(always)]
    fn four_keys<S: Simd, F: Format, const H: usize>(&self, s: S, head: usize, key: usize) -> [S::F; H] {
        let dim = self.q.len() / self.heads;
        let q = &self.q[head * dim..(head + H) * dim];
        let rows = [self.rows[key], self.rows[key + 4], self.rows[key + 8], self.rows[key + 12]];
        let mut sums = [s.splat(0.0); H];
        for pair in 0..dim.div_ceil(2 * LANES) {
            // SAFETY: the addresses are those of readable heads of `dim` elements.
            let factors = unsafe { F::factors(s, rows, pair) };
            for vector in 2 * pair..(dim / LANES).min(2 * pair + 2) {
                // SAFETY: as above, and the vector lies inside `dim`.
                let keys = unsafe { F::quarters(s, rows, vector, factors) };
                for h in 0..H {
                    for m in 0..4 {
                        // SAFETY: `q` has H heads of `dim` elements, the four lie inside `dim`.
                        let query =
                            unsafe { s.load_quarter_ptr(q.as_ptr().add(h * dim + vector * LANES + 4 * m)) };
                        sums[h] = s.fma(keys[m], query, sums[h]);
                    }
                }
            }
        }
        sums
    }
}

/// `out[head] = out[head] * alpha[head] + sum over keys of span: weights[head, key] * value[key]`.
pub(super) struct WeightedSum<'a> {
    pub(super) kind: KvType,
    pub(super) heads: usize,
    /// `[heads, 64]`.
    pub(super) weights: &'a [f32],
    /// One factor per head.
    pub(super) alpha: &'a [f32],
    pub(super) rows: &'a Addresses,
    /// What will be read in the next step: asked for along the way.
    pub(super) ahead: &'a mut Prefetch,
    pub(super) span: (usize, usize),
    /// `[heads, dim]`, dim a multiple of sixteen: that of the rows.
    pub(super) out: &'a mut [f32],
}

impl Kernel for WeightedSum<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        match self.kind {
            KvType::F32 => self.all::<S, F32>(s),
            KvType::F16 => self.all::<S, F16>(s),
            KvType::Q8_0 => self.all::<S, Q8>(s),
        }
    }
}

impl WeightedSum<'_> {
    #[inline(always)]
    fn all<S: Simd, F: Format>(mut self, s: S) {
        let vectors = self.out.len() / self.heads / LANES;
        let mut head = 0;
        while head < self.heads {
            head += match (S::REGISTERS, self.heads - head) {
                (32, 4..) => self.heads_at::<S, F, 4, 4>(s, head, vectors),
                (32, 2..) => self.heads_at::<S, F, 2, 4>(s, head, vectors),
                (32, _) => self.heads_at::<S, F, 1, 4>(s, head, vectors),
                (8, 2..) => self.heads_at::<S, F, 2, 2>(s, head, vectors),
                (8, _) => self.heads_at::<S, F, 1, 4>(s, head, vectors),
                _ => self.heads_at::<S, F, 1, 1>(s, head, vectors),
            };
        }
    }

    /// `H` heads from `head` on, `C` vectors at a time, then the rest. Gives `H`.
    #[inline(always)]
    fn heads_at<S: Simd, F: Format, const H: usize, const C: usize>(
        &mut self,
        s: S,
        head: usize,
        vectors: usize,
    ) -> usize {
        let mut vector = 0;
        while vector + C <= vectors {
            self.tile::<S, F, H, C>(s, head, vector, vectors);
            vector += C;
        }
        while C > 2 && vector + 2 <= vectors {
            self.tile::<S, F, H, 2>(s, head, vector, vectors);
            vector += 2;
        }
        while vector < vectors {
            self.tile::<S, F, H, 1>(s, head, vector, vectors);
            vector += 1;
        }
        H
    }

    /// `H` heads, `C` vectors from `vector` on (even unless `C` is 1): one chain of additions per element, over ascending keys.
    #[inline(always)]
    fn tile<S: Simd, F: Format, const H: usize, const C: usize>(
        &mut self,
        s: S,
        head: usize,
        vector: usize,
        vectors: usize,
    ) {
        let dim = vectors * LANES;
        let out = &mut self.out[head * dim..(head + H) * dim];
        let mut sums = [[s.splat(0.0); C]; H];
        for h in 0..H {
            let alpha = s.splat(self.alpha[head + h]);
            for c in 0..C {
                // SAFETY: `out` has H heads of `dim` elements, the vector lies inside `dim`.
                let value = unsafe { s.load_ptr(out.as_ptr().add(h * dim + (vector + c) * LANES)) };
                sums[h][c] = s.mul(value, alpha);
            }
        }
        let weights = &self.weights[head * BLOCK..(head + H) * BLOCK];
        let asks = head == 0 && vector == 0;
        for key in self.span.0..self.span.1 {
            let row = self.rows[key];
            if asks {
                self.ahead.ask(s, 1);
            }
            let mut line = [s.splat(0.0); C];
            for c in (0..C).step_by(2) {
                // SAFETY: the address is that of a readable head of `dim` elements.
                unsafe {
                    if c + 1 < C {
                        [line[c], line[c + 1]] = F::load_pair(s, row, (vector + c) / 2);
                    } else {
                        line[c] = F::load(s, row, vector + c);
                    }
                }
            }
            for h in 0..H {
                let weight = s.splat(weights[h * BLOCK + key]);
                for c in 0..C {
                    sums[h][c] = s.fma(weight, line[c], sums[h][c]);
                }
            }
        }
        for h in 0..H {
            for c in 0..C {
                // SAFETY: as for the loads above.
                unsafe { s.store_ptr(out.as_mut_ptr().add(h * dim + (vector + c) * LANES), sums[h][c]) };
            }
        }
    }
}

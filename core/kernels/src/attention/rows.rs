//! The two inner loops of decode: scores of a block of keys, and the weighted sum of its values, for all heads of a
//! group; each row of the cache is read once.

#![allow(
    clippy::needless_range_loop,
    reason = "loops over registers of constant number read better by index"
)]

use super::BLOCK;
use super::cache::{Addresses, KvF16, KvF32, KvFormat, KvQ8};
use crate::simd::{Kernel, LANES, Simd};
use menagerie_formulas::KvType;

/// The rows that will be read soon, prefetched line by line in memory order: prefetchers and memory pages work best
/// that way (measured: reading head by head has less than half the rate).
pub(super) struct Prefetch {
    rows: Addresses,
    /// Lines of 64 bytes per row, and per key and head if all rows are to be prefetched in one pass over the heads.
    lines: usize,
    per_key: usize,
    row: usize,
    line: usize,
}

impl Prefetch {
    /// `rows` of `bytes` each, prefetched while `heads` heads pass over a block.
    pub(super) fn new(rows: Addresses, bytes: usize, heads: usize) -> Prefetch {
        let lines = bytes.div_ceil(64);
        Prefetch { rows, lines, per_key: lines.div_ceil(heads), row: 0, line: 0 }
    }

    /// Prefetches the share of `keys` keys.
    #[inline(always)]
    pub(super) fn ask<S: Simd>(&mut self, s: S, keys: usize) {
        self.ask_lines(s, keys * self.per_key);
    }

    /// Prefetches some lines.
    #[inline(always)]
    fn ask_lines<S: Simd>(&mut self, s: S, lines: usize) {
        let (mut row, mut line) = (self.row, self.line);
        for _ in 0..lines {
            if row >= BLOCK {
                break;
            }
            s.prefetch(self.rows[row].wrapping_add(64 * line));
            line += 1;
            if line >= self.lines {
                (row, line) = (row + 1, 0);
            }
        }
        (self.row, self.line) = (row, line);
    }
}

/// `scores[head, key] = q[head] . key` for the keys of `span`; a few keys around them may be written too. Four chains
/// of fused additions over the elements `j`, `j + 4`, `j + 8` ..., added in ascending order of `j`.
pub(super) struct Scores<'a> {
    pub(super) kind: KvType,
    pub(super) heads: usize,
    /// `[heads, dim]`, where dim is a multiple of sixteen: that of the rows.
    pub(super) q: &'a [f32],
    pub(super) rows: &'a Addresses,
    /// What is read in the next step, prefetched along the way.
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
            KvType::F32 => self.all::<S, KvF32>(s),
            KvType::F16 => self.all::<S, KvF16>(s),
            KvType::Q8_0 => self.all::<S, KvQ8>(s),
        }
    }
}

/// Keys whose scores are summed together.
const KEYS: usize = LANES;

impl Scores<'_> {
    /// As many heads at a time as the registers allow: each key is widened once for them.
    #[inline(always)]
    fn all<S: Simd, F: KvFormat>(mut self, s: S) {
        let mut head = 0;
        while head < self.heads {
            head += match (S::REGISTERS, self.heads - head) {
                (32, 4..) => self.heads_at::<S, F, 4, 2>(s, head),
                (32, 2..) => self.heads_at::<S, F, 2, 4>(s, head),
                (32, _) => self.heads_at::<S, F, 1, 4>(s, head),
                (8, 2..) => self.heads_at::<S, F, 2, 1>(s, head),
                _ => self.heads_at::<S, F, 1, 1>(s, head),
            };
        }
    }

    /// `H` heads from `head` on, four times `G` keys at a time. Returns `H`.
    #[inline(always)]
    fn heads_at<S: Simd, F: KvFormat, const H: usize, const G: usize>(&mut self, s: S, head: usize) -> usize {
        for key in (self.span.0 / KEYS * KEYS..self.span.1).step_by(KEYS) {
            // The four chains of key `key + 4 k + i` are in quarter k of vector i.
            let mut chains = [[s.splat(0.0); 4]; H];
            for first in (0..4).step_by(G) {
                let own = self.fours::<S, F, H, G>(s, head, key + first);
                for g in 0..G {
                    for h in 0..H {
                        chains[h][first + g] = own[g][h];
                    }
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

    /// The chains of the keys `key`, `key + 4`, `key + 8` and `key + 12`: one key per quarter, one chain per lane; and
    /// of the keys one to `G - 1` further on.
    #[inline(always)]
    fn fours<S: Simd, F: KvFormat, const H: usize, const G: usize>(
        &mut self,
        s: S,
        head: usize,
        key: usize,
    ) -> [[S::F; H]; G] {
        let dim = self.q.len() / self.heads;
        let q = &self.q[head * dim..(head + H) * dim];
        let row = |at: usize| self.rows[key + at];
        let rows: [_; G] = std::array::from_fn(|g| [row(g), row(g + 4), row(g + 8), row(g + 12)]);
        let mut sums = [[s.splat(0.0); H]; G];
        let mut factors = [s.splat(0.0); G];
        // A few lines at a time: many at once wait for each other.
        let lines = if head == 0 { (4 * G * self.ahead.per_key).div_ceil(dim / LANES) } else { 0 };
        for vector in 0..dim / LANES {
            self.ahead.ask_lines(s, lines);
            let mut keys = [[s.splat(0.0); 4]; G];
            for g in 0..G {
                // SAFETY: the addresses are those of readable heads of `dim` elements, the vector lies inside `dim`.
                unsafe {
                    if vector.is_multiple_of(2) {
                        factors[g] = F::factors(s, rows[g], vector / 2);
                    }
                    keys[g] = F::quarters(s, rows[g], vector, factors[g]);
                }
            }
            for m in 0..4 {
                for h in 0..H {
                    // SAFETY: `q` has H heads of `dim` elements, the four lie inside `dim`.
                    let query =
                        unsafe { s.load_quarter_ptr(q.as_ptr().add(h * dim + vector * LANES + 4 * m)) };
                    for g in 0..G {
                        sums[g][h] = s.fma(keys[g][m], query, sums[g][h]);
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
    /// What is read in the next step, prefetched along the way.
    pub(super) ahead: &'a mut Prefetch,
    pub(super) span: (usize, usize),
    /// `[heads, dim]`, where dim is a multiple of sixteen: that of the rows.
    pub(super) out: &'a mut [f32],
}

impl Kernel for WeightedSum<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        match self.kind {
            KvType::F32 => self.all::<S, KvF32>(s),
            KvType::F16 => self.all::<S, KvF16>(s),
            KvType::Q8_0 => self.all::<S, KvQ8>(s),
        }
    }
}

impl WeightedSum<'_> {
    #[inline(always)]
    fn all<S: Simd, F: KvFormat>(mut self, s: S) {
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

    /// `H` heads from `head` on, `C` vectors at a time, then the rest. Returns `H`.
    #[inline(always)]
    fn heads_at<S: Simd, F: KvFormat, const H: usize, const C: usize>(
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
    fn tile<S: Simd, F: KvFormat, const H: usize, const C: usize>(
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
        let lines = if head == 0 { self.ahead.per_key.div_ceil(vectors.div_ceil(C)) } else { 0 };
        for key in self.span.0..self.span.1 {
            let row = self.rows[key];
            self.ahead.ask_lines(s, lines);
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

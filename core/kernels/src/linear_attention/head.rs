//! One head: its rows are prepared block by block, then applied to stripes of the state.

use super::{LinearAttentionRows, LogDecay};
use crate::memory::Scratch;
use crate::pointwise::{load_part, store_part};
use crate::pool::SendPointer;
use crate::simd::{Kernel, LANES, Simd, exp};
use menagerie_formulas::{KeySharing, LinearAttentionShape, StateUpdate};

/// Rows that are prepared together: their keys, decays and values stay in the first-level cache.
const BLOCK: usize = 16;

/// The fewest rows for which the state is copied into stripes; fewer rows read it in place.
const STRIPES_FROM: usize = 3;

/// One head of a sequence.
pub(super) struct HeadScan<'a> {
    pub(super) shape: &'a LinearAttentionShape,
    pub(super) input: &'a LinearAttentionRows<'a>,
    pub(super) head: usize,
    pub(super) rows: usize,
    /// `[key_dim, value_dim]`.
    pub(super) state: &'a mut [f32],
    /// `[T, heads, value_dim]`.
    pub(super) out: &'a SendPointer<f32>,
    pub(super) scratch: &'a mut Scratch,
}

impl Kernel for HeadScan<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let LinearAttentionShape { key_dim, value_dim, .. } = *self.shape;
        let (key_wide, value_wide) = (key_dim.next_multiple_of(LANES), value_dim.next_multiple_of(LANES));
        let in_place = self.rows < STRIPES_FROM && value_dim.is_multiple_of(LANES);
        let stripes = if in_place { 0 } else { key_dim * value_wide };
        let sizes = [stripes, BLOCK * key_wide, BLOCK * value_wide];
        let rest = self.scratch.floats(sizes[0] + 5 * sizes[1] + 2 * sizes[2]);
        let (stripes, rest) = rest.split_at_mut(sizes[0]);
        let (decay, rest) = rest.split_at_mut(sizes[1]);
        let (keys, rest) = rest.split_at_mut(sizes[1]);
        let (queries, rest) = rest.split_at_mut(sizes[1]);
        let (old_keys, rest) = rest.split_at_mut(sizes[1]);
        let (old_queries, rest) = rest.split_at_mut(sizes[1]);
        let (values, out) = rest.split_at_mut(sizes[2]);
        let (wide, products, strengths) = ([key_wide, value_wide], [0.0; BLOCK], [0.0; BLOCK]);
        #[rustfmt::skip]
        let mut block = Block {
            wide, key_dim, rows: 0, decay, keys, queries, old_keys, old_queries, values, out, products, strengths,
        };
        let source = RowSource { shape: self.shape, input: self.input, head: self.head };
        let (layout, state) = match in_place {
            true => (StateLayout::InPlace, &mut *self.state),
            false => {
                to_stripes::<S>(self.state, stripes, value_dim);
                (StateLayout::Stripes, &mut *stripes)
            }
        };
        for first in (0..self.rows).step_by(BLOCK) {
            block.rows = BLOCK.min(self.rows - first);
            block.prepare(s, &source, first);
            block.run(s, self.shape.update, state, layout);
            block.finish(s, &source, first, self.out);
        }
        if layout == StateLayout::Stripes {
            from_stripes::<S>(self.state, stripes, value_dim);
        }
    }
}

/// The layout of a state.
#[derive(Clone, Copy, PartialEq, Eq)]
enum StateLayout {
    /// `[key_dim, value_dim]`.
    InPlace,
    /// The layout that [`to_stripes`] writes.
    Stripes,
}

/// Vectors of the stripe that begins at column `first` of `wide`: four if the registers can hold their sums.
#[inline(always)]
fn vectors<S: Simd>(first: usize, wide: usize) -> usize {
    match (wide - first) / LANES {
        4.. if S::REGISTERS >= 32 => 4,
        2.. => 2,
        _ => 1,
    }
}

/// Copies a state `[key_dim, value_dim]` into stripes `[key_dim, columns]`, one after the other; the last is padded
/// with zeros.
#[inline(always)]
fn to_stripes<S: Simd>(state: &[f32], stripes: &mut [f32], value_dim: usize) {
    let (key_dim, wide) = (state.len() / value_dim, value_dim.next_multiple_of(LANES));
    let mut first = 0;
    while first < wide {
        let columns = vectors::<S>(first, wide) * LANES;
        let stripe = &mut stripes[first * key_dim..][..columns * key_dim];
        for (row, to) in state.chunks_exact(value_dim).zip(stripe.chunks_exact_mut(columns)) {
            fill(to, &row[first..(first + columns).min(value_dim)]);
        }
        first += columns;
    }
}

/// The way back.
#[inline(always)]
fn from_stripes<S: Simd>(state: &mut [f32], stripes: &[f32], value_dim: usize) {
    let (key_dim, wide) = (state.len() / value_dim, value_dim.next_multiple_of(LANES));
    let mut first = 0;
    while first < wide {
        let columns = vectors::<S>(first, wide) * LANES;
        let stripe = &stripes[first * key_dim..][..columns * key_dim];
        for (row, from) in state.chunks_exact_mut(value_dim).zip(stripe.chunks_exact(columns)) {
            let to = &mut row[first..(first + columns).min(value_dim)];
            to.copy_from_slice(&from[..to.len()]);
        }
        first += columns;
    }
}

/// Copies `from` to the beginning of `to` and fills the rest with zeros.
#[inline(always)]
fn fill(to: &mut [f32], from: &[f32]) {
    let (begin, rest) = to.split_at_mut(from.len());
    begin.copy_from_slice(from);
    rest.fill(0.0);
}

/// Where the rows of a head come from.
struct RowSource<'a> {
    shape: &'a LinearAttentionShape,
    input: &'a LinearAttentionRows<'a>,
    head: usize,
}

impl RowSource<'_> {
    /// The row's part of `[T, key_heads, key_dim]`.
    #[inline(always)]
    fn of_key_head<'b>(&self, all: &'b [f32], row: usize) -> &'b [f32] {
        let LinearAttentionShape { heads, key_heads, key_dim, sharing, .. } = *self.shape;
        let head = match sharing {
            KeySharing::Consecutive => self.head / (heads / key_heads),
            KeySharing::Tiled => self.head % key_heads,
        };
        &all[(row * key_heads + head) * key_dim..][..key_dim]
    }

    /// Where the row's part of `[T, heads, value_dim]` begins.
    #[inline(always)]
    fn place(&self, row: usize) -> usize {
        (row * self.shape.heads + self.head) * self.shape.value_dim
    }

    #[inline(always)]
    fn strength(&self, row: usize) -> f32 {
        self.input.strength.map_or(1.0, |all| all[row * self.shape.heads + self.head])
    }
}

/// Some rows of a head in the form that is applied to the stripes of the state: padded with zeros to whole vectors.
struct Block<'a> {
    /// Padded lengths of a key and of a value.
    wide: [usize; 2],
    key_dim: usize,
    rows: usize,
    /// `[rows, key]`, like the keys and queries; the old ones are times the decay.
    decay: &'a mut [f32],
    keys: &'a mut [f32],
    queries: &'a mut [f32],
    old_keys: &'a mut [f32],
    old_queries: &'a mut [f32],
    /// `[rows, value]`.
    values: &'a mut [f32],
    out: &'a mut [f32],
    /// Query times key, per row.
    products: [f32; BLOCK],
    strengths: [f32; BLOCK],
}

impl Block<'_> {
    #[inline(always)]
    fn prepare<S: Simd>(&mut self, s: S, source: &RowSource, first: usize) {
        let [key_wide, value_wide] = self.wide;
        for row in 0..self.rows {
            let at = row * key_wide..(row + 1) * key_wide;
            fill(&mut self.keys[at.clone()], source.of_key_head(source.input.keys, first + row));
            fill(&mut self.queries[at.clone()], source.of_key_head(source.input.queries, first + row));
            self.decays(s, source, row, first + row);
            self.strengths[row] = source.strength(first + row);
            let values = &mut self.values[row * value_wide..(row + 1) * value_wide];
            let place = source.place(first + row);
            fill(values, &source.input.values[place..place + source.shape.value_dim]);
            match source.shape.update {
                StateUpdate::Add => values.iter_mut().for_each(|value| *value *= self.strengths[row]),
                StateUpdate::Delta => self.fade(s, row, at),
            }
        }
    }

    /// The factors that the state is multiplied by before a row.
    #[inline(always)]
    fn decays<S: Simd>(&mut self, s: S, source: &RowSource, row: usize, source_row: usize) {
        let (heads, head, key_dim) = (source.shape.heads, source.head, self.key_dim);
        let to = &mut self.decay[row * self.wide[0]..(row + 1) * self.wide[0]];
        let log = match source.input.log_decay {
            LogDecay::Fixed(all) => all[head],
            LogDecay::PerHead(all) => all[source_row * heads + head],
            LogDecay::PerChannel(all) => {
                fill(to, &all[(source_row * heads + head) * key_dim..][..key_dim]);
                for to in to.as_chunks_mut::<LANES>().0 {
                    s.store(to, exp(s, s.load(to)));
                }
                return;
            }
        };
        let decay = exp(s, s.splat(log));
        to.as_chunks_mut::<LANES>().0.iter_mut().for_each(|to| s.store(to, decay));
    }

    /// The delta rule reads the state before it decays: key and query carry the decay.
    #[inline(always)]
    fn fade<S: Simd>(&mut self, s: S, row: usize, at: std::ops::Range<usize>) {
        let decay = self.decay[at.clone()].as_chunks::<LANES>().0;
        let keys = self.keys[at.clone()].as_chunks::<LANES>().0;
        let queries = self.queries[at.clone()].as_chunks::<LANES>().0;
        let old_keys = self.old_keys[at.clone()].as_chunks_mut::<LANES>().0;
        let old_queries = self.old_queries[at].as_chunks_mut::<LANES>().0;
        let mut product = s.splat(0.0);
        let old = old_keys.iter_mut().zip(old_queries);
        for (((decay, key), query), (old_key, old_query)) in decay.iter().zip(keys).zip(queries).zip(old) {
            let (decay, key, query) = (s.load(decay), s.load(key), s.load(query));
            s.store(old_key, s.mul(decay, key));
            s.store(old_query, s.mul(decay, query));
            product = s.fma(key, query, product);
        }
        self.products[row] = s.sum(product);
    }

    /// Applies the rows to every stripe of `state`, which has this layout.
    #[inline(always)]
    fn run<S: Simd>(&mut self, s: S, update: StateUpdate, state: &mut [f32], layout: StateLayout) {
        let wide = self.wide[1];
        let mut first = 0;
        while first < wide {
            let count = vectors::<S>(first, wide);
            let columns = count * LANES;
            let (part, stride) = match layout {
                StateLayout::InPlace => (&mut state[first..], wide),
                StateLayout::Stripes => {
                    (&mut state[first * self.key_dim..][..columns * self.key_dim], columns)
                }
            };
            match (count, update) {
                (4, StateUpdate::Add) => self.add::<S, 4>(s, first, part, stride),
                (4, StateUpdate::Delta) => self.delta::<S, 4>(s, first, part, stride),
                (2, StateUpdate::Add) => self.add::<S, 2>(s, first, part, stride),
                (2, StateUpdate::Delta) => self.delta::<S, 2>(s, first, part, stride),
                (_, StateUpdate::Add) => self.add::<S, 1>(s, first, part, stride),
                (_, StateUpdate::Delta) => self.delta::<S, 1>(s, first, part, stride),
            }
            first += columns;
        }
    }

    /// `S = a S + k v^T; out = S^T q` for `V` vectors of columns.
    #[inline(always)]
    fn add<S: Simd, const V: usize>(&mut self, s: S, first: usize, state: &mut [f32], stride: usize) {
        let key_wide = self.wide[0];
        for row in 0..self.rows {
            let at = row * key_wide..row * key_wide + self.key_dim;
            let (decay, keys) = (&self.decay[at.clone()], &self.keys[at.clone()]);
            let of_key = decay.iter().zip(keys).zip(&self.queries[at]);
            let values = self.load::<S, V>(s, first, row);
            let mut sums = [s.splat(0.0); V];
            for (state, ((decay, key), query)) in state.chunks_mut(stride).zip(of_key) {
                let Some(state) = state.as_chunks_mut::<LANES>().0.first_chunk_mut::<V>() else { return };
                let [decay, key, query] = [s.splat(*decay), s.splat(*key), s.splat(*query)];
                for v in 0..V {
                    let new = s.fma(key, values[v], s.mul(decay, s.load(&state[v])));
                    sums[v] = s.fma(query, new, sums[v]);
                    s.store(&mut state[v], new);
                }
            }
            self.store(s, first, row, sums);
        }
    }

    /// `d = b (v - (a S)^T k); out = (a S)^T q + (q.k) d; S = a S + k d^T` for `V` vectors of columns.
    #[inline(always)]
    fn delta<S: Simd, const V: usize>(&mut self, s: S, first: usize, state: &mut [f32], stride: usize) {
        let key_wide = self.wide[0];
        for row in 0..self.rows {
            let at = row * key_wide..row * key_wide + self.key_dim;
            let old = self.old_keys[at.clone()].iter().zip(&self.old_queries[at.clone()]);
            let (mut said, mut sums) = ([s.splat(0.0); V], [s.splat(0.0); V]);
            for (state, (key, query)) in state.chunks(stride).zip(old) {
                let Some(state) = state.as_chunks::<LANES>().0.first_chunk::<V>() else { return };
                let [key, query] = [s.splat(*key), s.splat(*query)];
                for v in 0..V {
                    let state = s.load(&state[v]);
                    said[v] = s.fma(key, state, said[v]);
                    sums[v] = s.fma(query, state, sums[v]);
                }
            }
            let values = self.load::<S, V>(s, first, row);
            let [strength, product] = [s.splat(self.strengths[row]), s.splat(self.products[row])];
            let mut change = values;
            for v in 0..V {
                change[v] = s.mul(strength, s.sub(values[v], said[v]));
                sums[v] = s.fma(product, change[v], sums[v]);
            }
            self.store(s, first, row, sums);
            let new = self.decay[at.clone()].iter().zip(&self.keys[at]);
            for (state, (decay, key)) in state.chunks_mut(stride).zip(new) {
                let Some(state) = state.as_chunks_mut::<LANES>().0.first_chunk_mut::<V>() else { return };
                let [decay, key] = [s.splat(*decay), s.splat(*key)];
                for v in 0..V {
                    let new = s.fma(key, change[v], s.mul(decay, s.load(&state[v])));
                    s.store(&mut state[v], new);
                }
            }
        }
    }

    /// `V` vectors of a row's values from a column on.
    #[inline(always)]
    fn load<S: Simd, const V: usize>(&self, s: S, first: usize, row: usize) -> [S::F; V] {
        let (values, _) = self.values[row * self.wide[1] + first..][..V * LANES].as_chunks::<LANES>();
        std::array::from_fn(|v| s.load(&values[v]))
    }

    #[inline(always)]
    fn store<S: Simd, const V: usize>(&mut self, s: S, first: usize, row: usize, sums: [S::F; V]) {
        let (out, _) = self.out[row * self.wide[1] + first..][..V * LANES].as_chunks_mut::<LANES>();
        for (out, sum) in out.iter_mut().zip(sums) {
            s.store(out, sum);
        }
    }

    /// Writes the results of the rows from `first` of the sequence on.
    #[inline(always)]
    fn finish<S: Simd>(&self, s: S, source: &RowSource, first: usize, out: &SendPointer<f32>) {
        let value_dim = source.shape.value_dim;
        let skip = source.input.skip.map_or(0.0, |all| all[source.head]);
        for row in 0..self.rows {
            let place = source.place(first + row);
            // SAFETY: `check` has seen room for `[T, heads, value_dim]`; a head's part of a row belongs to its one task.
            let to = unsafe { std::slice::from_raw_parts_mut(out.at(place), value_dim) };
            to.copy_from_slice(&self.out[row * self.wide[1]..][..value_dim]);
            if skip == 0.0 {
                continue;
            }
            let values = &source.input.values[place..place + value_dim];
            let skip = s.splat(skip);
            let (to, rest) = to.as_chunks_mut::<LANES>();
            let (values, values_rest) = values.as_chunks::<LANES>();
            for (to, values) in to.iter_mut().zip(values) {
                let sum = s.fma(skip, s.load(values), s.load(to));
                s.store(to, sum);
            }
            let sum = s.fma(skip, load_part(s, values_rest), load_part(s, rest));
            store_part(s, rest, sum);
        }
    }
}

//! One row of a sequence against the cache (decode): keys and values are read in place, once for all heads of a
//! group that a task has, part by part.

use std::ops::Range;

use super::biases::Distance;
use super::cache::{Addresses, CacheRows};
use super::online_softmax::{OnlineSoftmax, TILE_ROWS};
use super::parts::{self, HEADER, Partials, last_factor};
use super::prefill::WidenBlock;
use super::rows::{Prefetch, Scores, WeightedSum};
use super::{AttentionCall, AttentionSequence, BLOCK, DecodeHeads};
use crate::memory::Scratch;
use crate::simd::{Kernel, LANES, Simd};
use menagerie_formulas::KvType;

/// The single row of a sequence: some heads over the keys of one part.
pub(super) struct Decode<'a> {
    pub(super) call: &'a AttentionCall<'a>,
    pub(super) sequence: usize,
    pub(super) heads: DecodeHeads,
    pub(super) part: usize,
    pub(super) partials: &'a Partials,
    pub(super) scratch: &'a mut Scratch,
}

impl Kernel for Decode<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let DecodeHeads { kv_heads, group, .. } = self.heads;
        let heads = group * kv_heads;
        let key_wide = self.call.shape.key_dim.next_multiple_of(LANES);
        let wide = self.call.shape.value_dim.next_multiple_of(LANES);
        let each = kv_heads * group.div_ceil(TILE_ROWS) * LANES;
        let factors = group.next_multiple_of(LANES);
        let sizes =
            [heads * key_wide, heads * wide, group * BLOCK, BLOCK * key_wide.max(wide), each, each, factors];
        let Decode { call, sequence, heads, part, partials, scratch } = self;
        let rest = scratch.floats(sizes.iter().sum());
        let (q, rest) = rest.split_at_mut(sizes[0]);
        let (out, rest) = rest.split_at_mut(sizes[1]);
        let (scores, rest) = rest.split_at_mut(sizes[2]);
        let (tile, rest) = rest.split_at_mut(sizes[3]);
        let (max, rest) = rest.split_at_mut(sizes[4]);
        let (sums, alpha) = rest.split_at_mut(sizes[5]);
        let task = DecodeTask { call, sequence, heads, part, partials };
        s.call(DecodeLoop { task, q, out, scores, tile, max, sums, alpha });
    }
}

/// What a `Decode` is about.
struct DecodeTask<'a> {
    call: &'a AttentionCall<'a>,
    sequence: usize,
    heads: DecodeHeads,
    part: usize,
    partials: &'a Partials,
}

impl DecodeTask<'_> {
    /// The first query head.
    fn first_head(&self) -> usize {
        self.heads.kv_head * self.call.group() + self.heads.first
    }

    /// How many query heads there are: they are adjacent, because a task has all heads of a group or only one group.
    fn count(&self) -> usize {
        self.heads.kv_heads * self.heads.group
    }
}

/// The loop over the blocks of keys of a part. "heads" are the query heads of the task's key-value heads.
struct DecodeLoop<'a> {
    task: DecodeTask<'a>,
    /// Scaled queries, `[heads, key_dim rounded up]`.
    q: &'a mut [f32],
    /// Unfinished results, `[heads, value_dim rounded up]`.
    out: &'a mut [f32],
    /// `[group, 64]`.
    scores: &'a mut [f32],
    /// A widened block, for heads that are not a whole number of vectors.
    tile: &'a mut [f32],
    /// Vectors, one per strip of a key-value head's query heads.
    max: &'a mut [f32],
    sums: &'a mut [f32],
    /// One factor for each of a key-value head's query heads.
    alpha: &'a mut [f32],
}

impl Kernel for DecodeLoop<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(mut self, s: S) {
        let call = self.task.call;
        let sequence = &call.sequences[self.task.sequence];
        self.begin(sequence);
        let kv_heads = self.task.heads.kv_head..self.task.heads.kv_head + self.task.heads.kv_heads;
        let Range { start: low, end: high } = parts::keys(call.shape, sequence, self.task.part);
        let span = (low / BLOCK * BLOCK, high);
        let (keys, values) = call.rows(sequence);
        let mut keys = Stream::new(s, keys, &kv_heads, span);
        let mut values = Stream::new(s, values, &kv_heads, span);
        while keys.base < high {
            let span = (low.max(keys.base) - keys.base, high.min(keys.base + BLOCK) - keys.base);
            // All heads of a block before the next block: the cache is read row by row, page by page.
            for kv_head in kv_heads.clone() {
                self.head(s, kv_head, &mut keys, &mut values, span);
            }
            keys.advance();
            values.advance();
        }
        self.finish(s, sequence);
    }
}

/// The rows of the current block, and of the next.
struct Stream<'a> {
    rows: CacheRows<'a>,
    heads: &'a Range<usize>,
    base: usize,
    high: usize,
    /// The first of the heads in the rows of the current block.
    current: Addresses,
    next: Addresses,
    ahead: Prefetch,
}

impl<'a> Stream<'a> {
    #[inline(always)]
    fn new<S: Simd>(
        s: S,
        rows: CacheRows<'a>,
        heads: &'a Range<usize>,
        (base, high): (usize, usize),
    ) -> Stream<'a> {
        let current = rows.addresses(base, heads.start);
        let mut ahead = Prefetch::new(current, rows.span(heads.len()), 1);
        ahead.ask(s, BLOCK);
        let mut stream = Stream { rows, heads, base, high, current, next: current, ahead };
        stream.look_ahead();
        stream
    }

    #[inline(always)]
    fn look_ahead(&mut self) {
        if self.base + BLOCK < self.high {
            self.next = self.rows.addresses(self.base + BLOCK, self.heads.start);
            self.ahead = Prefetch::new(self.next, self.rows.span(self.heads.len()), self.heads.len());
        }
    }

    #[inline(always)]
    fn advance(&mut self) {
        self.base += BLOCK;
        self.current = self.next;
        self.look_ahead();
    }

    /// The addresses of a head in the current block, whose heads are whole vectors: in the cache itself, or in a
    /// widened tile.
    #[inline(always)]
    fn in_vectors<S: Simd>(&self, s: S, head: usize, tile: &mut [f32]) -> (KvType, Addresses) {
        let mut rows = self.current;
        for row in &mut rows {
            *row = row.wrapping_add(self.rows.step(head - self.heads.start));
        }
        let dim = self.rows.dim();
        if dim.is_multiple_of(LANES) {
            return (self.rows.kind(), rows);
        }
        s.call(WidenBlock { kind: self.rows.kind(), rows: &rows, dim, turned: false, tile: &mut *tile });
        for (row, line) in rows.iter_mut().zip(tile.chunks_exact(dim.next_multiple_of(LANES))) {
            *row = line.as_ptr().cast();
        }
        (KvType::F32, rows)
    }
}

impl DecodeLoop<'_> {
    /// One key-value head against the current block.
    #[inline(always)]
    fn head<S: Simd>(
        &mut self,
        s: S,
        kv_head: usize,
        keys: &mut Stream,
        values: &mut Stream,
        span: (usize, usize),
    ) {
        let (shape, group) = (self.task.call.shape, self.task.heads.group);
        let first = (kv_head - self.task.heads.kv_head) * group;
        let dim = shape.key_dim.next_multiple_of(LANES);
        let (kind, rows) = keys.in_vectors(s, kv_head, self.tile);
        s.call(Scores {
            kind,
            heads: group,
            q: &self.q[first * dim..(first + group) * dim],
            rows: &rows,
            ahead: &mut keys.ahead,
            span,
            scores: self.scores,
        });
        for start in (0..group).step_by(TILE_ROWS) {
            let strip = start..(start + TILE_ROWS).min(group);
            let kept = first / group * group.div_ceil(TILE_ROWS) + start / TILE_ROWS;
            let own = self.task.first_head() + first + strip.start;
            let mut alpha = [0.0; LANES];
            let query_heads = &std::array::from_fn(|row| own + row);
            let position = self.task.call.sequences[self.task.sequence].first_position;
            let positions = &[position as isize - keys.base as isize; TILE_ROWS];
            let distance = self.task.call.distance.as_ref();
            s.call(OnlineSoftmax {
                scores: &mut self.scores.as_chunks_mut::<BLOCK>().0[strip.clone()],
                visible: (span != (0, BLOCK)).then_some(&[span; TILE_ROWS]),
                softcap: shape.softcap,
                distance: distance.map(|bias| Distance { bias, heads: query_heads, positions }),
                max: &mut self.max.as_chunks_mut().0[kept],
                sums: &mut self.sums.as_chunks_mut().0[kept],
                alpha: &mut alpha,
            });
            self.alpha[strip.clone()].copy_from_slice(&alpha[..strip.len()]);
        }
        let wide = shape.value_dim.next_multiple_of(LANES);
        let (kind, rows) = values.in_vectors(s, kv_head, self.tile);
        s.call(WeightedSum {
            kind,
            heads: group,
            weights: self.scores,
            alpha: &self.alpha[..group],
            rows: &rows,
            ahead: &mut values.ahead,
            span,
            out: &mut self.out[first * wide..(first + group) * wide],
        });
    }

    /// Copies the queries, scaled, and clears the results.
    #[inline(never)]
    fn begin(&mut self, sequence: &AttentionSequence) {
        let (task, shape) = (&self.task, self.task.call.shape);
        let first = sequence.first_row * shape.heads + task.first_head();
        let end = first + task.count();
        let queries = task.call.q[first * shape.key_dim..end * shape.key_dim].chunks_exact(shape.key_dim);
        for (to, from) in self.q.chunks_exact_mut(shape.key_dim.next_multiple_of(LANES)).zip(queries) {
            to[shape.key_dim..].fill(0.0);
            for (to, from) in to.iter_mut().zip(from) {
                *to = from * shape.scale;
            }
        }
        self.out.fill(0.0);
        self.max.fill(f32::NEG_INFINITY);
        self.sums.fill(0.0);
    }

    /// Writes the heads to the output, or the part's share of them if the row is split.
    #[inline(always)]
    fn finish<S: Simd>(&self, s: S, sequence: &AttentionSequence) {
        let (task, shape) = (&self.task, self.task.call.shape);
        let group = task.heads.group;
        let wide = shape.value_dim.next_multiple_of(LANES);
        for index in 0..task.count() {
            let head = task.first_head() + index;
            let result = &self.out[index * wide..(index + 1) * wide];
            let (kv_head, own) = (index / group, index % group);
            let kept = (kv_head * group.div_ceil(TILE_ROWS) + own / TILE_ROWS) * LANES + own % TILE_ROWS;
            let (max, sum) = (self.max[kept], self.sums[kept]);
            if let Some(place) = task.partials.place(task.sequence, task.part, head) {
                // SAFETY: this task alone has this sequence, part and head.
                let slot = unsafe { task.partials.slot(place) };
                slot[..HEADER].copy_from_slice(&[max, sum]);
                slot[HEADER..].copy_from_slice(result);
                continue;
            }
            let sink = task.call.sinks.map(|sinks| sinks[head]);
            let factor = last_factor(s, max, sum, sink);
            let at = (sequence.first_row * shape.heads + head) * shape.value_dim;
            // SAFETY: `shape::check` found the row and head inside `out`; this task alone writes them.
            let to = unsafe { std::slice::from_raw_parts_mut(task.call.out.at(at), shape.value_dim) };
            for (to, from) in to.iter_mut().zip(result) {
                *to = from * factor;
            }
        }
    }
}

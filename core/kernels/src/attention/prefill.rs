//! Many rows of a sequence against the cache: blocks of queries times blocks of keys, as small f32 products.

use std::ops::Range;

use super::biases::Distance;
use super::cache::{Addresses, CacheRows, KvF16, KvF32, KvQ8, widen_columns, widen_rows};
use super::online_softmax::{OnlineSoftmax, TILE_ROWS};
use super::parts::{MergedParts, PART, last_factor};
use super::products::TileScores;
use super::rows::Prefetch;
use super::{AttentionCall, AttentionSequence, BLOCK};
use crate::memory::Scratch;
use crate::simd::{DenseProduct, Kernel, LANES, Simd};
use menagerie_formulas::KvType;

/// Rows `first..first + count` of a sequence, all query heads of one key-value head.
pub(super) struct Prefill<'a> {
    pub(super) call: &'a AttentionCall<'a>,
    pub(super) sequence: usize,
    pub(super) kv_head: usize,
    pub(super) first: usize,
    pub(super) count: usize,
    pub(super) scratch: &'a mut Scratch,
}

/// The thread's scratch, divided. Rows are (query, head of the group); the heads of a query are adjacent.
struct PrefillTiles<'a> {
    /// Scaled queries, `[rows, key_dim]`.
    q: &'a mut [f32],
    /// Unfinished results, `[rows, value_dim rounded up]`.
    out: &'a mut [f32],
    /// Keys of a block, `[key_dim, 64]`.
    keys: &'a mut [f32],
    /// Values of a block, `[64, value_dim rounded up]`.
    values: &'a mut [f32],
    /// Vectors, one per strip of rows.
    max: &'a mut [f32],
    sums: &'a mut [f32],
    /// The results, maxima and sums of the parts before, if there are several parts.
    before: [&'a mut [f32]; 3],
}

impl Kernel for Prefill<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let (key_dim, value_dim) = (self.call.shape.key_dim, self.call.shape.value_dim);
        let wide = value_dim.next_multiple_of(LANES);
        let rows = self.count * self.call.group();
        let Prefill { call, sequence, kv_head, first, count, scratch } = self;
        let sequence = &call.sequences[sequence];
        let position = sequence.first_position + first;
        let of_first = call.shape.mask.visible(position, sequence.total());
        let of_last = call.shape.mask.visible(position + count - 1, sequence.total());
        let (keys, shared) = (of_first.start..of_last.end, of_last.start..of_first.end);
        let several = usize::from(keys.start / PART != keys.end.saturating_sub(1) / PART);
        // Every piece is a multiple of sixteen: all stay aligned.
        let kept = rows.div_ceil(TILE_ROWS) * LANES;
        let sizes = [rows * key_dim, rows * wide, key_dim * BLOCK, BLOCK * wide, kept, kept];
        let [q, out, tile, values, max, sums] = sizes.map(|size| size.next_multiple_of(LANES));
        let before = [out, max, sums].map(|size| several * size);
        let total = q + out + tile + values + max + sums + before.iter().sum::<usize>();
        let mut rest = scratch.floats(total);
        let mut cut = |size| rest.split_off_mut(..size).unwrap_or(&mut []);
        let room = PrefillTiles {
            q: cut(q),
            out: cut(out),
            keys: cut(tile),
            values: cut(values),
            max: cut(max),
            sums: cut(sums),
            before: before.map(cut),
        };
        s.call(PrefillLoop { call, sequence, kv_head, first, count, keys, shared, ahead: None, room });
    }
}

/// What the rows of a strip see of a block.
struct Visibility {
    /// The range of keys, counted from the first key of the block; empty if none.
    spans: [(usize, usize); TILE_ROWS],
    /// Positions of the queries, counted likewise.
    positions: [isize; TILE_ROWS],
    heads: [usize; TILE_ROWS],
}

/// The loop over the blocks of keys.
struct PrefillLoop<'a> {
    call: &'a AttentionCall<'a>,
    sequence: &'a AttentionSequence<'a>,
    kv_head: usize,
    first: usize,
    count: usize,
    /// The positions that the rows see.
    keys: Range<usize>,
    /// The positions that all of them see, if there are any.
    shared: Range<usize>,
    /// The keys and values of the next block, which are prefetched.
    ahead: Option<[Prefetch; 2]>,
    room: PrefillTiles<'a>,
}

impl Kernel for PrefillLoop<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(mut self, s: S) {
        let (call, sequence) = (self.call, self.sequence);
        let (keys, values) = call.rows(sequence);
        self.begin();
        for block in self.keys.start / BLOCK..self.keys.end.div_ceil(BLOCK) {
            let base = block * BLOCK;
            let tile = &mut *self.room.keys;
            let rows = &keys.addresses(base, self.kv_head);
            s.call(WidenBlock { kind: keys.kind(), rows, dim: keys.dim(), turned: true, tile });
            let tile = &mut *self.room.values;
            let rows = &values.addresses(base, self.kv_head);
            s.call(WidenBlock { kind: values.kind(), rows, dim: values.dim(), turned: false, tile });
            let next = base + BLOCK;
            if next < self.keys.end {
                let ahead =
                    |rows: CacheRows| Prefetch::new(rows.addresses(next, self.kv_head), rows.span(1), 1);
                self.ahead = Some([ahead(keys), ahead(values)]);
            }
            self.block(s, base);
        }
        self.finish(s);
    }
}

impl PrefillLoop<'_> {
    /// Copies the queries, scaled, and clears the memory for results of parts.
    #[inline(never)]
    fn begin(&mut self) {
        let shape = self.call.shape;
        let group = self.call.group();
        let width = group * shape.key_dim;
        for (index, row) in self.room.q.chunks_exact_mut(width).take(self.count).enumerate() {
            let row_index = self.sequence.first_row + self.first + index;
            let from = (row_index * shape.heads + self.kv_head * group) * shape.key_dim;
            for (to, from) in row.iter_mut().zip(&self.call.q[from..from + width]) {
                *to = from * shape.scale;
            }
        }
        self.room.before.iter_mut().for_each(|of_all| of_all.fill(0.0));
    }

    /// All rows against the block of keys at `base`, whose tiles are ready.
    #[inline(always)]
    fn block<S: Simd>(&mut self, s: S, base: usize) {
        let ends = (base + BLOCK).is_multiple_of(PART) || base + BLOCK >= self.keys.end;
        let mut scores = [[0.0; BLOCK]; TILE_ROWS];
        let rows = self.count * self.call.group();
        let share = BLOCK.div_ceil(rows.div_ceil(TILE_ROWS));
        for start in (0..rows).step_by(TILE_ROWS) {
            for ahead in self.ahead.iter_mut().flatten() {
                ahead.ask(s, share);
            }
            self.strip(s, base, start, &mut scores);
            if ends {
                self.end_part(s, start);
            }
        }
    }

    /// Whether a part begins with the block at `base`.
    #[inline(always)]
    fn begins(&self, base: usize) -> bool {
        base.is_multiple_of(PART) || base <= self.keys.start
    }

    /// The strip at `start` against the block at `base`.
    #[inline(always)]
    fn strip<S: Simd>(&mut self, s: S, base: usize, start: usize, scores: &mut [[f32; BLOCK]; TILE_ROWS]) {
        let count = TILE_ROWS.min(self.count * self.call.group() - start);
        let whole = self.shared.start <= base && base + BLOCK <= self.shared.end;
        let distance = self.call.distance.as_ref();
        let mut seen =
            Visibility { spans: [(0, BLOCK); TILE_ROWS], positions: [0; TILE_ROWS], heads: [0; TILE_ROWS] };
        if !whole || distance.is_some() {
            seen = self.seen(base, start, count);
        }
        let keys = seen.spans[..count].iter().filter(|span| span.0 < span.1).map(|span| span.1).max();
        let keys = if whole { BLOCK } else { keys.unwrap_or(0) };
        if self.begins(base) {
            self.begin_part(start, whole);
        }
        if keys == 0 {
            return;
        }
        self.scores(s, (start, count), keys, scores);
        let mut alpha = [0.0; LANES];
        let Visibility { spans, positions, heads } = &seen;
        s.call(OnlineSoftmax {
            scores: &mut scores[..count],
            visible: (!whole).then_some(spans),
            softcap: self.call.shape.softcap,
            distance: distance.map(|bias| Distance { bias, heads, positions }),
            max: &mut self.room.max.as_chunks_mut().0[start / TILE_ROWS],
            sums: &mut self.room.sums.as_chunks_mut().0[start / TILE_ROWS],
            alpha: &mut alpha,
        });
        if whole {
            let alpha = (!self.begins(base)).then_some(&alpha);
            self.weigh(s, start, [0..count, 0..BLOCK], scores, alpha);
        } else {
            self.values(s, start, &spans[..count], scores, alpha);
        }
    }

    /// What `count` rows from `start` see of the block at `base`.
    fn seen(&self, base: usize, start: usize, count: usize) -> Visibility {
        let (sequence, mask, group) = (self.sequence, self.call.shape.mask, self.call.group());
        let mut seen =
            Visibility { spans: [(0, 0); TILE_ROWS], positions: [0; TILE_ROWS], heads: [0; TILE_ROWS] };
        for i in 0..count {
            let position = sequence.first_position + self.first + (start + i) / group;
            seen.positions[i] = position as isize - base as isize;
            seen.heads[i] = self.kv_head * group + (start + i) % group;
            let keys = mask.visible(position, sequence.total());
            let inside = |key: usize| key.clamp(base, base + BLOCK) - base;
            seen.spans[i] = (inside(keys.start), inside(keys.end));
        }
        seen
    }

    /// Clears the results of a part for the rows of the strip at `start`. If all rows see the whole first block
    /// (`whole`), it overwrites the results instead.
    #[inline(always)]
    fn begin_part(&mut self, start: usize, whole: bool) {
        let kept = start / TILE_ROWS * LANES..(start / TILE_ROWS + 1) * LANES;
        self.room.max[kept.clone()].fill(f32::NEG_INFINITY);
        self.room.sums[kept].fill(0.0);
        if !whole {
            let wide = self.call.shape.value_dim.next_multiple_of(LANES);
            let end = (start + TILE_ROWS).min(self.count * self.call.group());
            self.room.out[start * wide..end * wide].fill(0.0);
        }
    }

    /// Merges the results of a part for the rows of the strip at `start` into those of the parts before, if there are
    /// several.
    #[inline(always)]
    fn end_part<S: Simd>(&mut self, s: S, start: usize) {
        let PrefillTiles { out, max, sums, before: [all_out, all_max, all_sums], .. } = &mut self.room;
        if all_sums.is_empty() {
            return;
        }
        let wide = self.call.shape.value_dim.next_multiple_of(LANES);
        let strip = start / TILE_ROWS;
        let (max, sums) = (&max.as_chunks::<LANES>().0[strip], &sums.as_chunks::<LANES>().0[strip]);
        let all_max = &mut all_max.as_chunks_mut::<LANES>().0[strip];
        let all_sums = &mut all_sums.as_chunks_mut::<LANES>().0[strip];
        let joined = MergedParts::new(s, [all_max, all_sums], [max, sums]);
        let end = (start + TILE_ROWS).min(self.count * self.call.group());
        let results = out[start * wide..end * wide].chunks_exact(wide);
        for (row, (next, all)) in results.zip(all_out[start * wide..].chunks_exact_mut(wide)).enumerate() {
            // The largest weight is 1: a sum of 0 means that no key was visible.
            if sums[row] == 0.0 {
                continue;
            }
            if all_sums[row] == 0.0 {
                all.copy_from_slice(next);
                (all_max[row], all_sums[row]) = (max[row], sums[row]);
            } else {
                joined.add(s, row, all, next);
                (all_max[row], all_sums[row]) = (joined.max[row], joined.sums[row]);
            }
        }
    }

    /// `scores = q * keys` for `count` rows from `start` and the first `keys` keys of the block.
    #[inline(always)]
    fn scores<S: Simd>(
        &self,
        s: S,
        (start, count): (usize, usize),
        keys: usize,
        scores: &mut [[f32; BLOCK]; TILE_ROWS],
    ) {
        let dim = self.call.shape.key_dim;
        let q = &self.room.q[start * dim..(start + count) * dim];
        s.call(TileScores { q, dim, tile: self.room.keys, keys, scores: &mut scores[..count] });
    }

    /// `out = out * alpha + weights * values` for the rows from `start`, each over the keys that it sees and no others.
    /// The rows ascend: the range that a row sees begins and ends no earlier than that of the row before.
    #[inline(always)]
    fn values<S: Simd>(
        &mut self,
        s: S,
        start: usize,
        visible: &[(usize, usize)],
        weights: &[[f32; BLOCK]; TILE_ROWS],
        mut alpha: [f32; LANES],
    ) {
        let (first, last) = (visible[0], visible[visible.len() - 1]);
        let (low, high) = (last.0, first.1);
        let whole = [first, last].iter().all(|span| span.0 < span.1) && low < high;
        let mut row = 0;
        // Rows of one query see the same keys.
        for alike in visible.chunk_by(|a, b| a == b) {
            let (rows, span) = (row..row + alike.len(), alike[0]);
            let end = if whole { low } else { span.1 };
            row = rows.end;
            if span.0 < end {
                self.weigh(s, start, [rows.clone(), span.0..end], weights, Some(&alpha));
                alpha[rows].fill(1.0);
            }
        }
        if !whole {
            return;
        }
        self.weigh(s, start, [0..visible.len(), low..high], weights, Some(&alpha));
        let mut row = 0;
        for alike in visible.chunk_by(|a, b| a == b) {
            let (rows, span) = (row..row + alike.len(), alike[0]);
            row = rows.end;
            if high < span.1 {
                self.weigh(s, start, [rows, high..span.1], weights, Some(&[1.0; LANES]));
            }
        }
    }

    /// The keys `keys` of the block for some rows of the strip at `start`; without factors a fresh result.
    #[inline(always)]
    fn weigh<S: Simd>(
        &mut self,
        s: S,
        start: usize,
        [rows, keys]: [Range<usize>; 2],
        weights: &[[f32; BLOCK]; TILE_ROWS],
        alpha: Option<&[f32; LANES]>,
    ) {
        let wide = self.call.shape.value_dim.next_multiple_of(LANES);
        let out = &mut self.room.out[(start + rows.start) * wide..(start + rows.end) * wide];
        let values = &self.room.values[keys.start * wide..keys.end * wide];
        let product = DenseProduct {
            rows: rows.len(),
            depth: keys.len(),
            columns: wide,
            a: weights[rows.clone()].as_flattened()[keys.start..].as_ptr(),
            a_stride: BLOCK,
            b: values.as_ptr(),
            b_stride: wide,
            c: out.as_mut_ptr(),
            c_stride: wide,
            alpha: alpha.map_or(std::ptr::null(), |alpha| alpha[rows].as_ptr()),
        };
        s.call(ProductKernel(&product));
    }

    /// Divides by the sums (and the sinks' share) and writes the rows out.
    #[inline(always)]
    fn finish<S: Simd>(&self, s: S) {
        let (sequence, shape) = (self.sequence, self.call.shape);
        let group = self.call.group();
        let wide = shape.value_dim.next_multiple_of(LANES);
        let (out, max, sums) = match &self.room.before {
            [_, _, []] => (&*self.room.out, &*self.room.max, &*self.room.sums),
            [out, max, sums] => (&**out, &**max, &**sums),
        };
        for row in 0..self.count * group {
            let head = self.kv_head * group + row % group;
            let sink = self.call.sinks.map(|sinks| sinks[head]);
            let kept = row / TILE_ROWS * LANES + row % TILE_ROWS;
            let factor = last_factor(s, max[kept], sums[kept], sink);
            let from = &out[row * wide..row * wide + shape.value_dim];
            let at = ((sequence.first_row + self.first + row / group) * shape.heads + head) * shape.value_dim;
            // SAFETY: `shape::check` found the row and head inside `out`; this task alone writes them.
            let to = unsafe { std::slice::from_raw_parts_mut(self.call.out.at(at), shape.value_dim) };
            for (to, from) in to.iter_mut().zip(from) {
                *to = from * factor;
            }
        }
    }
}

/// A product as a separate function.
struct ProductKernel<'a>(&'a DenseProduct);

impl Kernel for ProductKernel<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        // SAFETY: `weigh` takes every pointer from a slice of the size that the product uses.
        unsafe { self.0.run(s) }
    }
}

/// A block of the cache as an f32 tile; with `turned` the keys are adjacent.
pub(super) struct WidenBlock<'a> {
    pub(super) kind: KvType,
    pub(super) rows: &'a Addresses,
    pub(super) dim: usize,
    pub(super) turned: bool,
    pub(super) tile: &'a mut [f32],
}

impl Kernel for WidenBlock<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let WidenBlock { kind, rows, dim, turned, tile } = self;
        match (kind, turned) {
            (KvType::F32, true) => widen_columns::<S, KvF32>(s, rows, dim, tile),
            (KvType::F16, true) => widen_columns::<S, KvF16>(s, rows, dim, tile),
            (KvType::Q8_0, true) => widen_columns::<S, KvQ8>(s, rows, dim, tile),
            (KvType::F32, false) => widen_rows::<S, KvF32>(s, rows, dim, tile),
            (KvType::F16, false) => widen_rows::<S, KvF16>(s, rows, dim, tile),
            (KvType::Q8_0, false) => widen_rows::<S, KvQ8>(s, rows, dim, tile),
        }
    }
}

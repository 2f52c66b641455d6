//! Many rows of a sequence against the cache: blocks of queries times blocks of keys, as small f32 products.

use std::ops::Range;

use super::biases::Distance;
use super::cache::{Addresses, F16, F32, Q8, widen_columns, widen_rows};
use super::online_softmax::{OnlineSoftmax, STRIP};
use super::parts::{PART, Unfinished, last_factor};
use super::products::TileScores;
use super::{AttentionSequence, BLOCK, Call};
use crate::kv::KvType;
use crate::memory::Scratch;
use crate::simd::{Kernel, LANES, Product, Simd};

/// Rows `first..first + count` of a sequence, all query heads of one key-value head.
pub(super) struct ManyRows<'a> {
    pub(super) call: &'a Call<'a>,
    pub(super) sequence: usize,
    pub(super) kv_head: usize,
    pub(super) first: usize,
    pub(super) count: usize,
    pub(super) scratch: &'a mut Scratch,
}

/// The thread's room, cut up. Rows are (query, head of the group), the heads of a query side by side.
struct Tiles<'a> {
    /// Scaled queries, `[rows, key_dim]`.
    q: &'a mut [f32],
    /// Unfinished results, `[rows, value_dim rounded up]`.
    out: &'a mut [f32],
    /// Keys of a block, `[key_dim, 64]`.
    keys: &'a mut [f32],
    /// Values of a block, `[64, value_dim rounded up]`.
    values: &'a mut [f32],
    max: &'a mut [f32],
    sums: &'a mut [f32],
    /// Of the parts before: results, maxima and sums, where there are more parts than one.
    before: [&'a mut [f32]; 3],
}

impl Kernel for ManyRows<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let (key_dim, value_dim) = (self.call.shape.key_dim, self.call.shape.value_dim);
        let wide = value_dim.next_multiple_of(LANES);
        let rows = self.count * self.call.group();
        let ManyRows { call, sequence, kv_head, first, count, scratch } = self;
        let sequence = &call.sequences[sequence];
        let position = sequence.first_position + first;
        let low = call.shape.mask.visible(position, sequence.total()).start;
        let high = call.shape.mask.visible(position + count - 1, sequence.total()).end;
        let several = usize::from(low / PART != high.saturating_sub(1) / PART);
        // Every piece a multiple of sixteen: all stay aligned.
        let sizes = [rows * key_dim, rows * wide, key_dim * BLOCK, BLOCK * wide, rows, rows];
        let [q, out, keys, values, max, sums] = sizes.map(|size| size.next_multiple_of(LANES));
        let before = [out, max, sums].map(|size| several * size);
        let total = q + out + keys + values + max + sums + before.iter().sum::<usize>();
        let mut rest = scratch.floats(total);
        let mut cut = |size| rest.split_off_mut(..size).unwrap_or(&mut []);
        let room = Tiles {
            q: cut(q),
            out: cut(out),
            keys: cut(keys),
            values: cut(values),
            max: cut(max),
            sums: cut(sums),
            before: before.map(cut),
        };
        s.call(ManyRowsLoop { call, sequence, kv_head, first, count, keys: low..high, room });
    }
}

/// The loop over the blocks of keys.
struct ManyRowsLoop<'a> {
    call: &'a Call<'a>,
    sequence: &'a AttentionSequence<'a>,
    kv_head: usize,
    first: usize,
    count: usize,
    /// Positions of what the rows see.
    keys: Range<usize>,
    room: Tiles<'a>,
}

impl Kernel for ManyRowsLoop<'_> {
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
            s.call(Widen { kind: keys.kind(), rows, dim: keys.dim(), turned: true, tile });
            let tile = &mut *self.room.values;
            let rows = &values.addresses(base, self.kv_head);
            s.call(Widen { kind: values.kind(), rows, dim: values.dim(), turned: false, tile });
            self.block(s, base);
            if (base + BLOCK).is_multiple_of(PART) || base + BLOCK >= self.keys.end {
                self.end_part(s);
            }
        }
        self.finish(s);
    }
}

impl ManyRowsLoop<'_> {
    /// Copies the queries, scaled, and clears the results.
    #[inline(always)]
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
        self.room.out.fill(0.0);
        self.room.max.fill(f32::NEG_INFINITY);
        self.room.sums.fill(0.0);
        self.room.before.iter_mut().for_each(|of_all| of_all.fill(0.0));
    }

    /// What the rows have of a part goes to the parts before, if there are more than one.
    #[inline(always)]
    fn end_part<S: Simd>(&mut self, s: S) {
        let wide = self.call.shape.value_dim.next_multiple_of(LANES);
        let Tiles { out, max, sums, before: [all_out, all_max, all_sums], .. } = &mut self.room;
        if all_sums.is_empty() {
            return;
        }
        let results = out.chunks_exact_mut(wide).zip(all_out.chunks_exact_mut(wide));
        for (row, (result, values)) in results.enumerate().take(self.count * self.call.group()) {
            // The largest weight is 1: a sum of 0 is that of no key at all.
            if sums[row] == 0.0 {
                continue;
            }
            let mut all = Unfinished { max: &mut all_max[row], sum: &mut all_sums[row], values };
            if *all.sum == 0.0 {
                all.values.copy_from_slice(result);
                (*all.max, *all.sum) = (max[row], sums[row]);
            } else {
                all.add(s, max[row], sums[row], result);
            }
            result.fill(0.0);
            (max[row], sums[row]) = (f32::NEG_INFINITY, 0.0);
        }
    }

    /// All rows against the block of keys at `base`, whose tiles are ready.
    #[inline(always)]
    fn block<S: Simd>(&mut self, s: S, base: usize) {
        let (sequence, mask) = (self.sequence, self.call.shape.mask);
        let group = self.call.group();
        let rows = self.count * group;
        let mut scores = [[0.0; BLOCK]; STRIP];
        let mut alpha = [0.0; LANES];
        let distance = self.call.distance.as_ref();
        for start in (0..rows).step_by(STRIP) {
            let count = STRIP.min(rows - start);
            let mut visible = [(0, 0); STRIP];
            let (mut positions, mut heads) = ([0; STRIP], [0; STRIP]);
            let mut seen = 0;
            for (i, span) in visible[..count].iter_mut().enumerate() {
                let position = sequence.first_position + self.first + (start + i) / group;
                positions[i] = position as isize - base as isize;
                heads[i] = self.kv_head * group + (start + i) % group;
                let keys = mask.visible(position, sequence.total());
                *span =
                    (keys.start.clamp(base, base + BLOCK) - base, keys.end.clamp(base, base + BLOCK) - base);
                if span.0 < span.1 {
                    seen = seen.max(span.1);
                }
            }
            if seen == 0 {
                continue;
            }
            self.scores(s, (start, count), seen, &mut scores);
            s.call(OnlineSoftmax {
                scores: &mut scores[..count],
                visible: &visible,
                softcap: self.call.shape.softcap,
                distance: distance.map(|bias| Distance { bias, heads: &heads, positions: &positions }),
                max: &mut self.room.max[start..start + count],
                sums: &mut self.room.sums[start..start + count],
                alpha: &mut alpha[..count],
            });
            self.values(s, start, &visible[..count], &scores, alpha);
        }
    }

    /// `scores = q * keys` for `count` rows from `start` and the first `keys` keys of the block.
    #[inline(always)]
    fn scores<S: Simd>(
        &self,
        s: S,
        (start, count): (usize, usize),
        keys: usize,
        scores: &mut [[f32; BLOCK]; STRIP],
    ) {
        let dim = self.call.shape.key_dim;
        let q = &self.room.q[start * dim..(start + count) * dim];
        s.call(TileScores { q, dim, tile: self.room.keys, keys, scores: &mut scores[..count] });
    }

    /// `out = out * alpha + weights * values` for the rows from `start`, each over the keys it sees and no others. The rows
    /// ascend: what they see begins and ends no earlier than for the row before.
    #[inline(always)]
    fn values<S: Simd>(
        &mut self,
        s: S,
        start: usize,
        visible: &[(usize, usize)],
        weights: &[[f32; BLOCK]; STRIP],
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
                self.weigh(s, start, [rows.clone(), span.0..end], weights, &alpha);
                alpha[rows].fill(1.0);
            }
        }
        if !whole {
            return;
        }
        self.weigh(s, start, [0..visible.len(), low..high], weights, &alpha);
        let mut row = 0;
        for alike in visible.chunk_by(|a, b| a == b) {
            let (rows, span) = (row..row + alike.len(), alike[0]);
            row = rows.end;
            if high < span.1 {
                self.weigh(s, start, [rows, high..span.1], weights, &[1.0; LANES]);
            }
        }
    }

    /// The keys `keys` of the block for some rows of the strip at `start`.
    #[inline(always)]
    fn weigh<S: Simd>(
        &mut self,
        s: S,
        start: usize,
        [rows, keys]: [Range<usize>; 2],
        weights: &[[f32; BLOCK]; STRIP],
        alpha: &[f32; LANES],
    ) {
        let wide = self.call.shape.value_dim.next_multiple_of(LANES);
        let out = &mut self.room.out[(start + rows.start) * wide..(start + rows.end) * wide];
        let values = &self.room.values[keys.start * wide..keys.end * wide];
        let product = Product {
            rows: rows.len(),
            depth: keys.len(),
            columns: wide,
            a: weights[rows.clone()].as_flattened()[keys.start..].as_ptr(),
            a_stride: BLOCK,
            b: values.as_ptr(),
            b_stride: wide,
            c: out.as_mut_ptr(),
            c_stride: wide,
            alpha: alpha[rows].as_ptr(),
        };
        s.call(Multiply(&product));
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
            let factor = last_factor(s, max[row], sums[row], sink);
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

/// A product as a function of its own.
struct Multiply<'a>(&'a Product);

impl Kernel for Multiply<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        // SAFETY: `weigh` takes every pointer from a slice of the size the product uses.
        unsafe { self.0.run(s) }
    }
}

/// A block of the cache as an f32 tile; `turned` puts the keys side by side.
pub(super) struct Widen<'a> {
    pub(super) kind: KvType,
    pub(super) rows: &'a Addresses,
    pub(super) dim: usize,
    pub(super) turned: bool,
    pub(super) tile: &'a mut [f32],
}

impl Kernel for Widen<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Widen { kind, rows, dim, turned, tile } = self;
        match (kind, turned) {
            (KvType::F32, true) => widen_columns::<S, F32>(s, rows, dim, tile),
            (KvType::F16, true) => widen_columns::<S, F16>(s, rows, dim, tile),
            (KvType::Q8_0, true) => widen_columns::<S, Q8>(s, rows, dim, tile),
            (KvType::F32, false) => widen_rows::<S, F32>(s, rows, dim, tile),
            (KvType::F16, false) => widen_rows::<S, F16>(s, rows, dim, tile),
            (KvType::Q8_0, false) => widen_rows::<S, Q8>(s, rows, dim, tile),
        }
    }
}

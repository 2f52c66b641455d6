//! Many rows of a sequence against the cache: blocks of queries times blocks of keys, as small f32 products.

use super::cache::{Addresses, F16, F32, Q8, Rows, widen_columns, widen_rows, with_scratch};
use super::soften::{STRIP, Soften};
use super::{AttentionSequence, BLOCK, Call};
use crate::kv::KvType;
use crate::simd::{Kernel, LANES, Product, Simd};

/// Rows `first..first + count` of a sequence, all query heads of one key-value head.
pub(super) struct ManyRows<'a> {
    pub(super) call: &'a Call<'a>,
    pub(super) sequence: usize,
    pub(super) kv_head: usize,
    pub(super) first: usize,
    pub(super) count: usize,
}

/// The thread's room, cut up. Rows are (query, head of the group), the heads of a query side by side.
struct Room<'a> {
    /// Scaled queries, `[rows, key_dim]`.
    q: &'a mut [f32],
    /// Unfinished results, `[rows, value_dim rounded up]`.
    out: &'a mut [f32],
    /// Keys of a block, `[key_dim, 64]`.
    keys: &'a mut [f32],
    /// Values of a block, `[64, value_dim rounded up]`.
    values: &'a mut [f32],
    most: &'a mut [f32],
    sums: &'a mut [f32],
}

impl Kernel for ManyRows<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let (key_dim, value_dim) = (self.call.shape.key_dim, self.call.shape.value_dim);
        let wide = value_dim.next_multiple_of(LANES);
        let rows = self.count * self.call.group();
        // Every piece a multiple of sixteen: all stay aligned.
        let sizes = [rows * key_dim, rows * wide, key_dim * BLOCK, BLOCK * wide, rows, rows];
        let sizes = sizes.map(|size| size.next_multiple_of(LANES));
        with_scratch(sizes.iter().sum(), |scratch| {
            let (q, rest) = scratch.split_at_mut(sizes[0]);
            let (out, rest) = rest.split_at_mut(sizes[1]);
            let (keys, rest) = rest.split_at_mut(sizes[2]);
            let (values, rest) = rest.split_at_mut(sizes[3]);
            let (most, sums) = rest.split_at_mut(sizes[4]);
            s.call(Stream { task: &self, room: Room { q, out, keys, values, most, sums } });
        });
    }
}

/// The loop over the blocks of keys.
struct Stream<'a> {
    task: &'a ManyRows<'a>,
    room: Room<'a>,
}

impl Kernel for Stream<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(mut self, s: S) {
        let task = self.task;
        let call = task.call;
        let sequence = &call.sequences[task.sequence];
        let keys = Rows::new(sequence.keys, sequence.total());
        let values = Rows::new(sequence.values, sequence.total());
        self.begin(sequence);
        let first = sequence.first_position + task.first;
        let low = call.shape.mask.visible(first, sequence.total()).start;
        let high = call.shape.mask.visible(first + task.count - 1, sequence.total()).end;
        for block in low / BLOCK..high.div_ceil(BLOCK) {
            let base = block * BLOCK;
            let tile = &mut *self.room.keys;
            let rows = &keys.addresses(base, task.kv_head);
            s.call(Widen { kind: keys.kind(), rows, dim: keys.dim(), turned: true, tile });
            let tile = &mut *self.room.values;
            let rows = &values.addresses(base, task.kv_head);
            s.call(Widen { kind: values.kind(), rows, dim: values.dim(), turned: false, tile });
            self.block(s, sequence, base);
        }
        self.finish(sequence);
    }
}

impl Stream<'_> {
    /// Copies the queries, scaled, and clears the results.
    #[inline(always)]
    fn begin(&mut self, sequence: &AttentionSequence) {
        let (task, shape) = (self.task, self.task.call.shape);
        let group = task.call.group();
        let width = group * shape.key_dim;
        for (index, row) in self.room.q.chunks_exact_mut(width).take(task.count).enumerate() {
            let row_index = sequence.first_row + task.first + index;
            let from = (row_index * shape.heads + task.kv_head * group) * shape.key_dim;
            for (to, from) in row.iter_mut().zip(&task.call.q[from..from + width]) {
                *to = from * shape.scale;
            }
        }
        self.room.out.fill(0.0);
        self.room.most.fill(f32::NEG_INFINITY);
        self.room.sums.fill(0.0);
    }

    /// All rows against the block of keys at `base`, whose tiles are ready.
    #[inline(always)]
    fn block<S: Simd>(&mut self, s: S, sequence: &AttentionSequence, base: usize) {
        let task = self.task;
        let group = task.call.group();
        let rows = task.count * group;
        let mut scores = [[0.0; BLOCK]; STRIP];
        let mut keep = [0.0; LANES];
        for start in (0..rows).step_by(STRIP) {
            let count = STRIP.min(rows - start);
            let mut visible = [(0, 0); STRIP];
            let mut depth = 0;
            for (i, span) in visible[..count].iter_mut().enumerate() {
                let position = sequence.first_position + task.first + (start + i) / group;
                let seen = task.call.shape.mask.visible(position, sequence.total());
                *span = (seen.start.max(base) - base, seen.end.clamp(base, base + BLOCK) - base);
                if span.0 < span.1 {
                    depth = depth.max(span.1);
                }
            }
            if depth == 0 {
                continue;
            }
            self.scores(s, start, count, &mut scores);
            s.call(Soften {
                scores: &mut scores[..count],
                visible: &visible,
                softcap: task.call.shape.softcap,
                most: &mut self.room.most[start..start + count],
                sums: &mut self.room.sums[start..start + count],
                keep: &mut keep[..count],
            });
            self.values(s, start, depth, &scores[..count], &keep[..count]);
        }
    }

    /// `scores = q * keys` for `count` rows from `start`.
    #[inline(always)]
    fn scores<S: Simd>(&self, s: S, start: usize, count: usize, scores: &mut [[f32; BLOCK]; STRIP]) {
        let dim = self.task.call.shape.key_dim;
        let q = &self.room.q[start * dim..(start + count) * dim];
        let product = Product {
            rows: count,
            depth: dim,
            columns: BLOCK,
            a: q.as_ptr(),
            a_stride: dim,
            b: self.room.keys[..dim * BLOCK].as_ptr(),
            b_stride: BLOCK,
            c: scores.as_flattened_mut().as_mut_ptr(),
            c_stride: BLOCK,
            keep: std::ptr::null(),
        };
        s.call(Multiply(&product));
    }

    /// `out = out * keep + weights * values` over the block's first `depth` keys.
    #[inline(always)]
    fn values<S: Simd>(&mut self, s: S, start: usize, depth: usize, weights: &[[f32; BLOCK]], keep: &[f32]) {
        let wide = self.task.call.shape.value_dim.next_multiple_of(LANES);
        let out = &mut self.room.out[start * wide..(start + weights.len()) * wide];
        let product = Product {
            rows: weights.len(),
            depth,
            columns: wide,
            a: weights.as_flattened().as_ptr(),
            a_stride: BLOCK,
            b: self.room.values[..BLOCK * wide].as_ptr(),
            b_stride: wide,
            c: out.as_mut_ptr(),
            c_stride: wide,
            keep: keep.as_ptr(),
        };
        s.call(Multiply(&product));
    }

    /// Divides by the sums (and the sinks' share) and writes the rows out.
    #[inline(always)]
    fn finish(&self, sequence: &AttentionSequence) {
        let (task, shape) = (self.task, self.task.call.shape);
        let group = task.call.group();
        let wide = shape.value_dim.next_multiple_of(LANES);
        for row in 0..task.count * group {
            let head = task.kv_head * group + row % group;
            let sink = task.call.sinks.map(|sinks| sinks[head]);
            let factor = last_factor(self.room.most[row], self.room.sums[row], sink);
            let from = &self.room.out[row * wide..row * wide + shape.value_dim];
            let at = ((sequence.first_row + task.first + row / group) * shape.heads + head) * shape.value_dim;
            // SAFETY: `shape::check` found the row and head inside `out`; this task alone writes them.
            let to = unsafe { std::slice::from_raw_parts_mut(task.call.out.at(at), shape.value_dim) };
            for (to, from) in to.iter_mut().zip(from) {
                *to = from * factor;
            }
        }
    }
}

/// What a row's result is multiplied by at the end: one over the sum of all weights, the sink's included.
#[inline(always)]
pub(super) fn last_factor(most: f32, sum: f32, sink: Option<f32>) -> f32 {
    let Some(sink) = sink else { return 1.0 / sum };
    let top = most.max(sink);
    (most - top).exp() / (sum * (most - top).exp() + (sink - top).exp())
}

/// A product as a function of its own.
struct Multiply<'a>(&'a Product);

impl Kernel for Multiply<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        // SAFETY: `scores` and `values` take every pointer from a slice of the size the product uses.
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

//! Many rows of a sequence against the cache: blocks of queries times blocks of keys, as small f32 products.

use super::biases::Distance;
use super::cache::{Addresses, F16, F32, Q8, widen_columns, widen_rows};
use super::online_softmax::{OnlineSoftmax, STRIP};
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
        let ManyRows { call, sequence, kv_head, first, count, scratch } = self;
        let rest = scratch.floats(sizes.iter().sum());
        let (q, rest) = rest.split_at_mut(sizes[0]);
        let (out, rest) = rest.split_at_mut(sizes[1]);
        let (keys, rest) = rest.split_at_mut(sizes[2]);
        let (values, rest) = rest.split_at_mut(sizes[3]);
        let (max, sums) = rest.split_at_mut(sizes[4]);
        let room = Tiles { q, out, keys, values, max, sums };
        s.call(ManyRowsLoop { call, sequence: &call.sequences[sequence], kv_head, first, count, room });
    }
}

/// The loop over the blocks of keys.
struct ManyRowsLoop<'a> {
    call: &'a Call<'a>,
    sequence: &'a AttentionSequence<'a>,
    kv_head: usize,
    first: usize,
    count: usize,
    room: Tiles<'a>,
}

impl Kernel for ManyRowsLoop<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(mut self, s: S) {
        let (call, sequence) = (self.call, self.sequence);
        let (keys, values) = call.rows(sequence);
        self.begin();
        let first = sequence.first_position + self.first;
        let low = call.shape.mask.visible(first, sequence.total()).start;
        let high = call.shape.mask.visible(first + self.count - 1, sequence.total()).end;
        for block in low / BLOCK..high.div_ceil(BLOCK) {
            let base = block * BLOCK;
            let tile = &mut *self.room.keys;
            let rows = &keys.addresses(base, self.kv_head);
            s.call(Widen { kind: keys.kind(), rows, dim: keys.dim(), turned: true, tile });
            let tile = &mut *self.room.values;
            let rows = &values.addresses(base, self.kv_head);
            s.call(Widen { kind: values.kind(), rows, dim: values.dim(), turned: false, tile });
            self.block(s, base);
        }
        self.finish();
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
            let mut depth = 0;
            for (i, span) in visible[..count].iter_mut().enumerate() {
                let position = sequence.first_position + self.first + (start + i) / group;
                positions[i] = position as isize - base as isize;
                heads[i] = self.kv_head * group + (start + i) % group;
                let seen = mask.visible(position, sequence.total());
                *span = (seen.start.max(base) - base, seen.end.clamp(base, base + BLOCK) - base);
                if span.0 < span.1 {
                    depth = depth.max(span.1);
                }
            }
            if depth == 0 {
                continue;
            }
            self.scores(s, start, count, &mut scores);
            s.call(OnlineSoftmax {
                scores: &mut scores[..count],
                visible: &visible,
                softcap: self.call.shape.softcap,
                distance: distance.map(|bias| Distance { bias, heads: &heads, positions: &positions }),
                max: &mut self.room.max[start..start + count],
                sums: &mut self.room.sums[start..start + count],
                alpha: &mut alpha[..count],
            });
            self.values(s, start, depth, &scores[..count], &alpha[..count]);
        }
    }

    /// `scores = q * keys` for `count` rows from `start`.
    #[inline(always)]
    fn scores<S: Simd>(&self, s: S, start: usize, count: usize, scores: &mut [[f32; BLOCK]; STRIP]) {
        let dim = self.call.shape.key_dim;
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
            alpha: std::ptr::null(),
        };
        s.call(Multiply(&product));
    }

    /// `out = out * alpha + weights * values` over the block's first `depth` keys.
    #[inline(always)]
    fn values<S: Simd>(&mut self, s: S, start: usize, depth: usize, weights: &[[f32; BLOCK]], alpha: &[f32]) {
        let wide = self.call.shape.value_dim.next_multiple_of(LANES);
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
            alpha: alpha.as_ptr(),
        };
        s.call(Multiply(&product));
    }

    /// Divides by the sums (and the sinks' share) and writes the rows out.
    #[inline(always)]
    fn finish(&self) {
        let (sequence, shape) = (self.sequence, self.call.shape);
        let group = self.call.group();
        let wide = shape.value_dim.next_multiple_of(LANES);
        for row in 0..self.count * group {
            let head = self.kv_head * group + row % group;
            let sink = self.call.sinks.map(|sinks| sinks[head]);
            let factor = last_factor(self.room.max[row], self.room.sums[row], sink);
            let from = &self.room.out[row * wide..row * wide + shape.value_dim];
            let at = ((sequence.first_row + self.first + row / group) * shape.heads + head) * shape.value_dim;
            // SAFETY: `shape::check` found the row and head inside `out`; this task alone writes them.
            let to = unsafe { std::slice::from_raw_parts_mut(self.call.out.at(at), shape.value_dim) };
            for (to, from) in to.iter_mut().zip(from) {
                *to = from * factor;
            }
        }
    }
}

/// What a row's result is multiplied by at the end: one over the sum of all weights, the sink's included.
#[inline(always)]
pub(super) fn last_factor(max: f32, sum: f32, sink: Option<f32>) -> f32 {
    let Some(sink) = sink else { return 1.0 / sum };
    let top = max.max(sink);
    (max - top).exp() / (sum * (max - top).exp() + (sink - top).exp())
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

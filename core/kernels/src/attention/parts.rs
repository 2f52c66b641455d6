//! A row's keys in parts of 512 positions, each a streaming softmax of its own: their unfinished results, and how they are put
//! together.

use std::ops::Range;
use std::sync::Arc;

use super::{AttentionSequence, AttentionShape, Call};
use crate::memory::{Buffer, Buffers};
use crate::pool::SendPointer;
use crate::simd::{Kernel, LANES, Simd, exp};

/// Positions per part: parts begin at multiples of it.
pub(super) const PART: usize = 512;

/// The parts that hold keys which the only row of the sequence sees.
pub(super) fn parts(shape: &AttentionShape, sequence: &AttentionSequence) -> Range<usize> {
    let seen = shape.mask.visible(sequence.first_position, sequence.total());
    seen.start / PART..seen.end.div_ceil(PART)
}

/// Unfinished results of rows that are cut into parts: per part and head the largest score, the sum of the
/// weights, and the weighted values.
pub(super) struct Partials {
    heads: usize,
    wide: usize,
    /// Sequence, its parts, where its results begin.
    entries: Vec<(usize, Range<usize>, usize)>,
    size: usize,
    data: Option<Buffer>,
    pointer: SendPointer<f32>,
}

/// Floats before the weighted values.
pub(super) const HEADER: usize = 2;

impl Partials {
    pub(super) fn new(shape: &AttentionShape) -> Partials {
        let wide = shape.value_dim.next_multiple_of(LANES);
        let pointer = SendPointer(std::ptr::null_mut());
        Partials { heads: shape.heads, wide, entries: Vec::new(), size: 0, data: None, pointer }
    }

    /// Makes room for a sequence, if it has more than one part. Sequences come in ascending order.
    pub(super) fn reserve(&mut self, sequence: usize, parts: Range<usize>) {
        if parts.len() > 1 {
            let size = parts.len() * self.heads * (HEADER + self.wide);
            self.entries.push((sequence, parts, self.size));
            self.size += size;
        }
    }

    /// Takes what was reserved; before it nothing may be written.
    pub(super) fn allocate(&mut self, buffers: &Arc<Buffers>) {
        if self.size > 0 {
            let data = self.data.insert(buffers.take(self.size * size_of::<f32>()));
            self.pointer = SendPointer(data.floats_mut().as_mut_ptr());
        }
    }

    /// The sequences that have parts to combine.
    pub(super) fn sequences(&self) -> Range<usize> {
        0..self.entries.len()
    }

    /// Where the result of a part and head goes; none if the sequence is not cut.
    pub(super) fn place(&self, sequence: usize, part: usize, head: usize) -> Option<usize> {
        let index = self.entries.binary_search_by_key(&sequence, |entry| entry.0).ok()?;
        let (_, parts, first) = &self.entries[index];
        Some(first + ((part - parts.start) * self.heads + head) * (HEADER + self.wide))
    }

    /// The floats of one part and head.
    ///
    /// # Safety
    /// `place` must come from `place`, and no other thread may use the same part and head meanwhile.
    #[allow(clippy::mut_from_ref)]
    pub(super) unsafe fn slot(&self, place: usize) -> &mut [f32] {
        // SAFETY: `place` is inside `data`, which is neither moved nor resized after `allocate`; exclusive by the
        // contract.
        unsafe { std::slice::from_raw_parts_mut(self.pointer.at(place), HEADER + self.wide) }
    }
}

/// The unfinished result of a row over some of its keys.
pub(super) struct Unfinished<'a> {
    /// The largest score.
    pub(super) max: &'a mut f32,
    /// The sum of the weights, relative to `max`.
    pub(super) sum: &'a mut f32,
    /// The weighted values, whole vectors of them.
    pub(super) values: &'a mut [f32],
}

impl Unfinished<'_> {
    /// Adds the result over the keys of the next part in which the row sees any.
    #[inline(always)]
    pub(super) fn add<S: Simd>(&mut self, s: S, max: f32, sum: f32, values: &[f32]) {
        let top = self.max.max(max);
        let (before, after) = (exp(s, s.splat(*self.max - top)), exp(s, s.splat(max - top)));
        let sums = s.fma(s.splat(sum), after, s.mul(s.splat(*self.sum), before));
        (*self.max, *self.sum) = (top, s.lanes(sums)[0]);
        let vectors = self.values.as_chunks_mut::<LANES>().0.iter_mut();
        for (vector, other) in vectors.zip(values.as_chunks::<LANES>().0) {
            let value = s.fma(s.load(other), after, s.mul(s.load(vector), before));
            s.store(vector, value);
        }
    }
}

/// What a row's result is multiplied by at the end: one over the sum of all weights, the sink's included.
#[inline(always)]
pub(super) fn last_factor<S: Simd>(s: S, max: f32, sum: f32, sink: Option<f32>) -> f32 {
    let Some(sink) = sink else { return 1.0 / sum };
    let top = max.max(sink);
    let (scale, share) = (exp(s, s.splat(max - top)), exp(s, s.splat(sink - top)));
    let (scale, share) = (s.lanes(scale)[0], s.lanes(share)[0]);
    scale / (sum * scale + share)
}

/// Puts the parts of a row together, in their order.
pub(super) struct Combine<'a> {
    pub(super) call: &'a Call<'a>,
    /// Index among the cut sequences.
    pub(super) sequence: usize,
    pub(super) partials: &'a Partials,
}

impl Kernel for Combine<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Combine { call, partials, .. } = self;
        let (sequence, parts, _) = &partials.entries[self.sequence];
        let shape = call.shape;
        let row = call.sequences[*sequence].first_row;
        for head in 0..shape.heads {
            let slots = parts.clone().filter_map(|part| partials.place(*sequence, part, head));
            // SAFETY: all tasks are done; this thread alone goes on, and the slots are apart.
            let mut slots = slots.map(|place| unsafe { partials.slot(place) });
            let Some([max, sum, values @ ..]) = slots.next() else { continue };
            let mut all = Unfinished { max, sum, values };
            for slot in slots {
                all.add(s, slot[0], slot[1], &slot[HEADER..]);
            }
            let factor = last_factor(s, *all.max, *all.sum, call.sinks.map(|sinks| sinks[head]));
            let at = (row * shape.heads + head) * shape.value_dim;
            // SAFETY: `shape::check` found the row and head inside `out`; nobody else writes now.
            let to = unsafe { std::slice::from_raw_parts_mut(call.out.at(at), shape.value_dim) };
            for (to, from) in to.iter_mut().zip(&*all.values) {
                *to = from * factor;
            }
        }
    }
}

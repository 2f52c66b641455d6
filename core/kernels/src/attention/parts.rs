//! A row's keys in parts of 512 positions, each with a streaming softmax of its own: their unfinished results, and how
//! they are merged.

use std::ops::Range;
use std::sync::Arc;

use super::{AttentionCall, AttentionSequence};
use crate::memory::{Buffer, Buffers};
use crate::pool::SendPointer;
use crate::simd::{Kernel, LANES, Simd, exp};
use menagerie_formulas::AttentionShape;

/// Positions per part: parts begin at multiples of it.
pub(super) const PART: usize = 512;

/// The parts that hold keys that the only row of the sequence sees.
pub(super) fn parts(shape: &AttentionShape, sequence: &AttentionSequence) -> Range<usize> {
    let seen = shape.mask.visible(sequence.first_position, sequence.total());
    seen.start / PART..seen.end.div_ceil(PART)
}

/// The keys of a part that the only row of the sequence sees.
pub(super) fn keys(shape: &AttentionShape, sequence: &AttentionSequence, part: usize) -> Range<usize> {
    let seen = shape.mask.visible(sequence.first_position, sequence.total());
    seen.start.max(part * PART)..seen.end.min((part + 1) * PART)
}

/// Unfinished results of rows that are split into parts: per part and head the largest score, the sum of the weights,
/// and the weighted values.
pub(super) struct Partials {
    heads: usize,
    wide: usize,
    /// Sequence, its parts, and the start of its results.
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

    /// Reserves memory for a sequence with more than one part. Sequences must come in ascending order.
    pub(super) fn reserve(&mut self, sequence: usize, parts: Range<usize>) {
        if parts.len() > 1 {
            let size = parts.len() * self.heads * (HEADER + self.wide);
            self.entries.push((sequence, parts, self.size));
            self.size += size;
        }
    }

    /// Allocates the reserved memory; nothing may be written before.
    pub(super) fn allocate(&mut self, buffers: &Arc<Buffers>) {
        if self.size > 0 {
            let data = self.data.insert(buffers.take(self.size * size_of::<f32>()));
            self.pointer = SendPointer(data.floats_mut().as_mut_ptr());
        }
    }

    /// How many sequences have parts to merge.
    pub(super) fn sequences(&self) -> usize {
        self.entries.len()
    }

    /// How many floats there are.
    pub(super) fn floats(&self) -> usize {
        self.size
    }

    /// The place for the result of a part and head; `None` if the sequence is not split.
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

/// How the unfinished results of sixteen rows over some keys are merged with those over the next part in which they see
/// any. Lanes of rows that see no key in one of them are undefined.
pub(super) struct MergedParts {
    /// The factors of the values so far, and of those of the next part.
    factors: [[f32; LANES]; 2],
    /// The largest scores.
    pub(super) max: [f32; LANES],
    /// The sums of the weights, relative to `max`.
    pub(super) sums: [f32; LANES],
}

impl MergedParts {
    /// Computes the merge of the maxima and sums so far with those of the next part.
    #[inline(always)]
    pub(super) fn new<S: Simd>(s: S, so_far: [&[f32; LANES]; 2], next: [&[f32; LANES]; 2]) -> MergedParts {
        let [max, sum] = so_far.map(|values| s.load(values));
        let [next_max, next_sum] = next.map(|values| s.load(values));
        let top = s.max(max, next_max);
        let (before, after) = (exp(s, s.sub(max, top)), exp(s, s.sub(next_max, top)));
        let sums = s.fma(next_sum, after, s.mul(sum, before));
        MergedParts { factors: [s.lanes(before), s.lanes(after)], max: s.lanes(top), sums: s.lanes(sums) }
    }

    /// Adds the values of the next part to those of row `row`; whole vectors.
    #[inline(always)]
    pub(super) fn add<S: Simd>(&self, s: S, row: usize, values: &mut [f32], next: &[f32]) {
        let [before, after] = self.factors.map(|factors| s.splat(factors[row]));
        let vectors = values.as_chunks_mut::<LANES>().0.iter_mut();
        for (vector, other) in vectors.zip(next.as_chunks::<LANES>().0) {
            let value = s.fma(s.load(other), after, s.mul(s.load(vector), before));
            s.store(vector, value);
        }
    }
}

/// The factor of a row's result at the end: one over the sum of all weights, the sink's included.
#[inline(always)]
pub(super) fn last_factor<S: Simd>(s: S, max: f32, sum: f32, sink: Option<f32>) -> f32 {
    let Some(sink) = sink else { return 1.0 / sum };
    let top = max.max(sink);
    let (scale, share) = (exp(s, s.splat(max - top)), exp(s, s.splat(sink - top)));
    let (scale, share) = (s.lanes(scale)[0], s.lanes(share)[0]);
    scale / (sum * scale + share)
}

/// Merges the parts of a row in their order, for up to sixteen heads.
pub(super) struct Combine<'a> {
    pub(super) call: &'a AttentionCall<'a>,
    /// Index among the split sequences.
    pub(super) sequence: usize,
    pub(super) heads: Range<usize>,
    pub(super) partials: &'a Partials,
}

impl Kernel for Combine<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Combine { call, partials, heads, .. } = &self;
        let (sequence, parts, _) = &partials.entries[self.sequence];
        let slot = |part: usize, head: usize| {
            // SAFETY: all tasks that fill slots are done; this one alone has these heads of the sequence, and it uses each
            // slot once at a time.
            partials.place(*sequence, part, head).map(|place| unsafe { partials.slot(place) })
        };
        let headers = |part: usize| {
            let mut headers = [[0.0; LANES]; HEADER];
            for (lane, slot) in heads.clone().filter_map(|head| slot(part, head)).enumerate() {
                (headers[0][lane], headers[1][lane]) = (slot[0], slot[1]);
            }
            headers
        };
        let [mut max, mut sums] = headers(parts.start);
        for part in parts.start + 1..parts.end {
            let [next_max, next_sums] = headers(part);
            let joined = MergedParts::new(s, [&max, &sums], [&next_max, &next_sums]);
            for (lane, head) in heads.clone().enumerate() {
                if let (Some(all), Some(next)) = (slot(parts.start, head), slot(part, head)) {
                    joined.add(s, lane, &mut all[HEADER..], &next[HEADER..]);
                }
            }
            (max, sums) = (joined.max, joined.sums);
        }
        let shape = call.shape;
        let row = call.sequences[*sequence].first_row;
        for (lane, head) in heads.clone().enumerate() {
            let Some(all) = slot(parts.start, head) else { continue };
            let factor = last_factor(s, max[lane], sums[lane], call.sinks.map(|sinks| sinks[head]));
            let at = (row * shape.heads + head) * shape.value_dim;
            // SAFETY: `shape::check` found the row and head inside `out`; this task alone writes them now.
            let to = unsafe { std::slice::from_raw_parts_mut(call.out.at(at), shape.value_dim) };
            for (to, from) in to.iter_mut().zip(&all[HEADER..]) {
                *to = from * factor;
            }
        }
    }
}

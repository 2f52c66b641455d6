//! [`Sequence`]: a handle to the state of one token sequence.

mod answer_start;
mod stored;
mod swapped;

pub(crate) use answer_start::AnswerStart;
pub(crate) use stored::{Regime, Section, StoredSequence, StoredState};
pub(crate) use swapped::SwappedState;

use menagerie_model::{AdapterSet, InferenceStep, RopeRegime, SequenceId, Snapshot, StateSpec};
use std::ops::Range;
use std::sync::Arc;

/// Snapshots a sequence keeps; each is a copy of its recurrent states, and the pages that windows show there.
pub(crate) const SNAPSHOTS: usize = 4;

/// Bytes of the snapshots of recurrent states that a sequence keeps.
pub fn snapshot_bytes(states: &[StateSpec]) -> u64 {
    let blocks = states.iter().filter(|spec| matches!(spec, StateSpec::PerSequence { .. }));
    blocks.map(|spec| (spec.elements() as u64).saturating_mul(4 * SNAPSHOTS as u64)).sum()
}

/// Which rows of a prompt want logits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogitRows {
    /// The last one.
    Last,
    /// All of them; the prompt is computed from its beginning.
    All,
    /// Those from this row of the prompt on; it is computed from its beginning.
    From(usize),
}

/// A token sequence of a [`crate::Scheduler`]: its tokens, and where their state is. The state itself is in the
/// scheduler's pool; [`crate::Scheduler::free`] gives it back.
#[derive(Debug)]
pub struct Sequence {
    pub(crate) id: SequenceId,
    /// Tokens whose state is held, then those still to be fed.
    pub(crate) tokens: Vec<u32>,
    pub(crate) computed: usize,
    /// Tokens that are computed as a prompt; later ones are decoded.
    pub(crate) prompt: usize,
    pub(crate) cached: usize,
    pub(crate) logit_rows: LogitRows,
    pub(crate) regime: RopeRegime,
    pub(crate) reprefills: usize,
    /// Points that a recurrent state or one with a window can go back to, by length.
    pub(crate) snapshots: Vec<Arc<Snapshot>>,
    /// Whether the pool keeps pages for them that windows have left.
    pub(crate) retains: bool,
    pub(crate) adapters: Option<Arc<AdapterSet>>,
    pub(crate) urgency: Urgency,
    /// Lengths that a chunk ends at, ascending: others go on from there.
    pub(crate) chunk_boundaries: Vec<usize>,
    /// Lengths that a chunk ends at, ascending: points to come back to, where others may part from it.
    pub(crate) snapshot_positions: Vec<usize>,
    pub(crate) preemptions: usize,
    /// Of them, times it was set aside.
    pub(crate) swaps: usize,
    /// What it held when it gave its pages up, where that is kept; it holds nothing meanwhile.
    pub(crate) swapped: Option<Box<SwappedState>>,
    /// Where its newest answer began, of one whose owner may ask for another.
    pub(crate) answer: Option<Box<AnswerStart>>,
}

/// Who comes first where rows or pages run out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Urgency {
    /// What the caller says; more is more urgent.
    pub(crate) priority: i32,
    /// Number of the sequence among those of its scheduler: of equals the first one.
    pub(crate) arrival: u64,
    /// Steps that it had rows for and got none in.
    pub(crate) waited: usize,
}

/// Steps of waiting that count as one step of priority, so that nobody waits for ever.
pub(crate) const STEPS_PER_PRIORITY: usize = 16;

impl Urgency {
    /// Its priority, raised by the time it waited.
    pub(crate) fn effective(&self) -> i64 {
        i64::from(self.priority) + (self.waited / STEPS_PER_PRIORITY) as i64
    }

    /// Ascending from the most urgent; time does not change it, so that nobody takes the pages of somebody who took his.
    pub(crate) fn rank(&self) -> (i64, u64) {
        (-i64::from(self.priority), self.arrival)
    }
}

impl Sequence {
    pub(crate) fn new(id: SequenceId, adapters: Option<Arc<AdapterSet>>) -> Self {
        Self {
            id,
            tokens: Vec::new(),
            computed: 0,
            prompt: 0,
            cached: 0,
            logit_rows: LogitRows::Last,
            regime: RopeRegime::Short,
            reprefills: 0,
            snapshots: Vec::new(),
            retains: false,
            adapters,
            urgency: Urgency::default(),
            chunk_boundaries: Vec::new(),
            snapshot_positions: Vec::new(),
            preemptions: 0,
            swaps: 0,
            swapped: None,
            answer: None,
        }
    }

    /// The same tokens and state under another id; what it was asked to do is not part of it.
    pub(crate) fn twin(&self, id: SequenceId) -> Self {
        Self {
            tokens: self.tokens().to_vec(),
            computed: self.computed,
            prompt: self.computed,
            regime: self.regime,
            snapshots: self.snapshots.clone(),
            retains: self.retains,
            ..Self::new(id, self.adapters.clone())
        }
    }

    /// How urgent it is beside others; 0 unless told otherwise, more is more urgent. It matters where rows of a step or
    /// pages run out.
    pub fn set_priority(&mut self, priority: i32) {
        self.urgency.priority = priority;
    }

    /// Times its state was given up for more urgent sequences.
    pub fn preemptions(&self) -> usize {
        self.preemptions
    }

    /// Of them, times it was kept in memory and put back, instead of being computed again.
    pub fn swaps(&self) -> usize {
        self.swaps
    }

    /// Tokens whose state is held.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens[..self.computed]
    }

    /// Tokens still to be fed.
    pub fn pending(&self) -> usize {
        self.tokens.len() - self.computed
    }

    /// Tokens whose state is held, or set aside.
    pub(crate) fn reached(&self) -> usize {
        self.swapped.as_ref().map_or(self.computed, |aside| aside.tokens())
    }

    /// Tokens still to be computed: those to be fed, without what is set aside.
    pub(crate) fn uncomputed(&self) -> usize {
        self.tokens.len() - self.reached()
    }

    /// Forgets what was to be fed, and what was set aside.
    pub(crate) fn forget_pending(&mut self) {
        self.swapped = None;
        self.tokens.truncate(self.computed);
    }

    /// Tokens of the prompt that were held before it began.
    pub fn cached(&self) -> usize {
        self.cached
    }

    /// The adapters that act on it.
    pub fn adapters(&self) -> Option<&Arc<AdapterSet>> {
        self.adapters.as_ref()
    }

    /// The rope regime of the cached keys.
    pub fn regime(&self) -> RopeRegime {
        self.regime
    }

    /// Times the sequence was prefilled again because the regime changed.
    pub fn reprefills(&self) -> usize {
        self.reprefills
    }

    /// What a step of the next `rows` tokens is for, and which of its rows want logits.
    pub(crate) fn next_step(&self, rows: usize) -> (InferenceStep, Range<usize>) {
        if self.is_decoding() { self.decode_step(rows) } else { self.prefill_step(rows) }
    }
}

//! [`Sequence`]: a handle to the state of one token sequence.

use menagerie_model::{AdapterSet, InferenceStep, RopeRegime, SequenceId, Snapshot};
use std::ops::Range;
use std::sync::Arc;

/// Which rows of a prompt want logits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
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
    pub(crate) held: usize,
    /// Tokens that are computed as a prompt; later ones are decoded.
    pub(crate) prompt: usize,
    pub(crate) cached: usize,
    pub(crate) wanted: Wanted,
    pub(crate) regime: RopeRegime,
    pub(crate) reprefills: usize,
    /// Points that a recurrent state can go back to, by length.
    pub(crate) snapshots: Vec<Arc<Snapshot>>,
    pub(crate) adapters: Option<Arc<AdapterSet>>,
    pub(crate) urgency: Urgency,
    /// Lengths that a chunk ends at, ascending: others go on from there.
    pub(crate) cuts: Vec<usize>,
    pub(crate) preemptions: usize,
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
pub(crate) const PATIENCE: usize = 16;

impl Urgency {
    /// Its priority, raised by the time it waited.
    pub(crate) fn effective(&self) -> i64 {
        i64::from(self.priority) + (self.waited / PATIENCE) as i64
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
            held: 0,
            prompt: 0,
            cached: 0,
            wanted: Wanted::Last,
            regime: RopeRegime::Short,
            reprefills: 0,
            snapshots: Vec::new(),
            adapters,
            urgency: Urgency::default(),
            cuts: Vec::new(),
            preemptions: 0,
        }
    }

    /// The same tokens and state under another id; what it was asked to do is not part of it.
    pub(crate) fn twin(&self, id: SequenceId) -> Self {
        Self {
            tokens: self.tokens().to_vec(),
            held: self.held,
            prompt: self.held,
            regime: self.regime,
            snapshots: self.snapshots.clone(),
            ..Self::new(id, self.adapters.clone())
        }
    }

    /// How urgent it is beside others; 0 unless told otherwise, more is more urgent. It matters where rows of a step or
    /// pages run out.
    pub fn set_priority(&mut self, priority: i32) {
        self.urgency.priority = priority;
    }

    /// Times its state was given up for more urgent sequences, and computed again.
    pub fn preemptions(&self) -> usize {
        self.preemptions
    }

    /// Tokens whose state is held.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens[..self.held]
    }

    /// Tokens still to be fed.
    pub fn pending(&self) -> usize {
        self.tokens.len() - self.held
    }

    /// Whether its next token is decoded: its prompt is held.
    pub(crate) fn is_decoding(&self) -> bool {
        self.pending() > 0 && self.held >= self.prompt
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
        let start = self.held;
        if start >= self.prompt {
            return (InferenceStep::Decode { current_position: start }, 0..rows);
        }
        let is_final_chunk = start + rows == self.prompt;
        let step = InferenceStep::Prefill {
            chunk_tokens: rows,
            chunk_start_position: start,
            total_prompt_tokens: self.prompt,
            is_final_chunk,
        };
        let from = match self.wanted {
            Wanted::All => 0,
            Wanted::From(first) => first.saturating_sub(start).min(rows),
            Wanted::Last if is_final_chunk => rows - 1,
            Wanted::Last => rows,
        };
        (step, from..rows)
    }

    /// Tokens that `prompt` begins with and that are held; never all of it, since its last row wants logits.
    pub(crate) fn common_prefix(&self, prompt: &[u32]) -> usize {
        shared(self.tokens(), prompt)
    }

    /// The same once its pending tokens are held.
    pub(crate) fn prospect(&self, prompt: &[u32]) -> usize {
        shared(&self.tokens, prompt)
    }

    /// Makes a chunk end at `len` tokens.
    pub(crate) fn cut_at(&mut self, len: usize) {
        if len > self.held
            && len < self.tokens.len()
            && let Err(place) = self.cuts.binary_search(&len)
        {
            self.cuts.insert(place, len);
        }
    }

    /// Rows until the next cut; at most `rows`.
    pub(crate) fn up_to_cut(&self, rows: usize) -> usize {
        let next = self.cuts.iter().find(|cut| **cut > self.held);
        next.map_or(rows, |cut| rows.min(cut - self.held))
    }
}

/// Tokens of `prompt` that need not be computed where `held` are.
pub(crate) fn shared(held: &[u32], prompt: &[u32]) -> usize {
    let common = held.iter().zip(prompt).take_while(|(held, new)| held == new).count();
    common.min(prompt.len().saturating_sub(1))
}

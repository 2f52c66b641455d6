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
    pub(crate) snapshots: Vec<Snapshot>,
    pub(crate) adapters: Option<Arc<AdapterSet>>,
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
        }
    }

    /// Tokens whose state is held.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens[..self.held]
    }

    /// Tokens still to be fed.
    pub fn pending(&self) -> usize {
        self.tokens.len() - self.held
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

    /// Tokens that `prompt` begins with and that are held; never all of it, since its last row wants logits. Two are left,
    /// so that this row is computed by the kernels for several rows, as it is where nothing is held: the same seed then
    /// gives the same text.
    pub(crate) fn common_prefix(&self, prompt: &[u32]) -> usize {
        let common = self.tokens().iter().zip(prompt).take_while(|(held, new)| held == new).count();
        common.min(prompt.len().saturating_sub(2))
    }
}

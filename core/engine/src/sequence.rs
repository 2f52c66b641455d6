//! [`Sequence`]: a handle to the state of one token sequence.

mod answer_start;
mod draft;
mod hidden;
mod stored;
mod swapped;

pub(crate) use answer_start::AnswerStart;
pub(crate) use draft::{DraftStart, GuessChances, ProposedToken, SequenceDraft};
pub(crate) use hidden::HiddenTail;
pub(crate) use stored::{Regime, StateSection, StoredSequence, StoredState};
pub(crate) use swapped::SwappedState;

use crate::disk_cache::BlockChain;
use crate::lens::LogitLens;
use menagerie_model::{AdapterSet, InferenceStep, RopeRegime, SequenceId, Snapshot, StateSpec};
use std::cmp::Reverse;
use std::ops::Range;
use std::sync::Arc;

/// The most snapshots of a sequence. Each has a copy of the recurrent states, and the pages that windowed layers see
/// there.
pub(crate) const SNAPSHOTS: usize = 4;

/// Bytes of the snapshots of recurrent states of one sequence.
pub fn snapshot_bytes(states: &[StateSpec]) -> u64 {
    let blocks = states.iter().filter(|spec| matches!(spec, StateSpec::PerSequence { .. }));
    blocks.map(|spec| (spec.elements() as u64).saturating_mul(4 * SNAPSHOTS as u64)).sum()
}

/// The rows of a prompt whose logits are requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogitRows {
    /// The last row.
    Last,
    /// All rows; the whole prompt is computed.
    All,
    /// The rows from this one on; the whole prompt is computed.
    From(usize),
}

/// A token sequence of a [`crate::Scheduler`]: its tokens, and where their state is. The state itself is in the
/// scheduler's pool.
#[derive(Debug)]
pub struct Sequence {
    pub(crate) id: SequenceId,
    /// The tokens whose state is computed, then the pending ones.
    pub(crate) tokens: Vec<u32>,
    pub(crate) computed: usize,
    /// The length of the prompt; later tokens are decoded one by one.
    pub(crate) prompt: usize,
    pub(crate) cached: usize,
    pub(crate) logit_rows: LogitRows,
    /// Whether the logits of its prompt are scored as they are computed, and not needed together.
    pub(crate) is_scored: bool,
    pub(crate) regime: RopeRegime,
    pub(crate) reprefills: usize,
    /// Snapshots of recurrent or windowed states that it can be rewound to, by length.
    pub(crate) snapshots: Vec<Arc<Snapshot>>,
    /// Whether the pool keeps pages for them that the windows have left behind.
    pub(crate) retains: bool,
    pub(crate) adapters: Option<Arc<AdapterSet>>,
    /// Only requests with this salt may start with its state.
    pub(crate) salt: Option<Arc<str>>,
    /// Its blocks in the disk cache, if it is stored there.
    pub(crate) blocks: Option<Box<BlockChain>>,
    /// Those of the cached tokens that came from the disk.
    pub(crate) from_disk: usize,
    pub(crate) urgency: Urgency,
    /// Whether a step with rows of it has begun and not ended. Its state is then neither read nor changed.
    pub(crate) in_flight: bool,
    /// Positions where a chunk ends, ascending: other prompts start with the state there.
    pub(crate) chunk_boundaries: Vec<usize>,
    /// Positions where a chunk ends and a snapshot is taken, ascending: other prompts may differ from there on.
    pub(crate) snapshot_positions: Vec<usize>,
    pub(crate) preemptions: usize,
    /// The preemptions in which its state was swapped out.
    pub(crate) swaps: usize,
    /// Its state while it is preempted, if it was swapped out; nothing is computed then.
    pub(crate) swapped: Option<Box<SwappedState>>,
    /// Whether its state is computed again from its tokens if it is lost with a stage: it is that of an answer, to which no row
    /// is passed twice.
    pub(crate) replays: bool,
    /// How often its state was lost since its last row of logits.
    pub(crate) losses: usize,
    /// The start of its newest answer, in a sequence that may answer the prompt again.
    pub(crate) answer: Option<Box<AnswerStart>>,
    /// Guesses of its next tokens.
    pub(crate) draft: SequenceDraft,
    /// The newest rows of the model, if it has a head for further tokens.
    pub(crate) hidden: HiddenTail,
    /// The lens of its request.
    pub(crate) lens: Option<Arc<LogitLens>>,
}

/// The order of sequences when rows or pages run out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Urgency {
    /// The caller's priority; higher is more urgent.
    pub(crate) priority: i32,
    /// The number of the sequence in its scheduler: among equals, the earlier one is more urgent.
    pub(crate) arrival: u64,
    /// Steps in which it had pending rows and got none.
    pub(crate) waited: usize,
}

/// Steps of waiting that raise the priority by one, so that no sequence waits forever.
pub(crate) const STEPS_PER_PRIORITY: usize = 16;

impl Urgency {
    /// Its priority, raised by the time it has waited.
    pub(crate) fn effective(&self) -> i64 {
        i64::from(self.priority) + (self.waited / STEPS_PER_PRIORITY) as i64
    }

    /// Sort key for the rows of a step: by priority, then the one that has waited longest.
    pub(crate) fn turn(&self) -> (Reverse<i64>, Reverse<usize>, u64) {
        (Reverse(self.effective()), Reverse(self.waited), self.arrival)
    }

    /// Sort key, most urgent first. Waiting time is left out, so that two sequences cannot preempt each other in turn.
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
            is_scored: false,
            regime: RopeRegime::Short,
            reprefills: 0,
            snapshots: Vec::new(),
            retains: false,
            adapters,
            salt: None,
            blocks: None,
            from_disk: 0,
            urgency: Urgency::default(),
            in_flight: false,
            chunk_boundaries: Vec::new(),
            snapshot_positions: Vec::new(),
            preemptions: 0,
            swaps: 0,
            swapped: None,
            replays: false,
            losses: 0,
            answer: None,
            draft: SequenceDraft::default(),
            hidden: HiddenTail::default(),
            lens: None,
        }
    }

    /// The same tokens and state under another id, without prompt, priority and statistics.
    pub(crate) fn twin(&self, id: SequenceId) -> Self {
        Self {
            tokens: self.tokens().to_vec(),
            computed: self.computed,
            prompt: self.computed,
            regime: self.regime,
            snapshots: self.snapshots.clone(),
            retains: self.retains,
            salt: self.salt.clone(),
            hidden: self.hidden.clone(),
            ..Self::new(id, self.adapters.clone())
        }
    }

    /// Sets its priority among the sequences of a step; 0 by default, higher is more urgent. It matters when rows of a
    /// step or pages run out.
    pub(crate) fn set_priority(&mut self, priority: i32) {
        self.urgency.priority = priority;
    }

    /// How often it was preempted by more urgent sequences.
    pub(crate) fn preemptions(&self) -> usize {
        self.preemptions
    }

    /// The preemptions in which its state was swapped out and in again instead of being computed again.
    pub(crate) fn swaps(&self) -> usize {
        self.swaps
    }

    /// The tokens whose state is computed.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens[..self.computed]
    }

    /// The number of tokens that are not computed yet.
    pub fn pending(&self) -> usize {
        self.tokens.len() - self.computed
    }

    /// The number of tokens whose state is computed, in the pool or swapped out.
    pub(crate) fn reached(&self) -> usize {
        self.swapped.as_ref().map_or(self.computed, |aside| aside.tokens())
    }

    /// The number of pending tokens, without those whose state is swapped out.
    pub(crate) fn uncomputed(&self) -> usize {
        self.tokens.len() - self.reached()
    }

    /// Drops the pending tokens and the swapped state.
    pub(crate) fn forget_pending(&mut self) {
        self.swapped = None;
        self.draft.clear();
        self.draft.again = 0;
        self.tokens.truncate(self.computed);
    }

    /// Takes the next token of the answer if its row is computed already. The row still has to be made part of the state.
    pub(crate) fn accept_drafted(&mut self, token: u32) -> bool {
        let accepted = self.draft.accepts(token);
        if accepted {
            self.tokens.push(token);
        }
        accepted
    }

    /// Whether the newest step has more rows for it: its last token was a guess that was right.
    pub(crate) fn has_next_row(&self) -> bool {
        self.pending() == 0
    }

    /// The tokens of the prompt that were computed before it arrived.
    pub fn cached(&self) -> usize {
        self.cached
    }

    /// Its adapters.
    pub fn adapters(&self) -> Option<&Arc<AdapterSet>> {
        self.adapters.as_ref()
    }

    /// The rope regime of the cached keys.
    pub fn regime(&self) -> RopeRegime {
        self.regime
    }

    /// How often it was prefilled again because the rope regime changed.
    pub fn reprefills(&self) -> usize {
        self.reprefills
    }

    /// The step of the next `rows` tokens, and which of these rows produce logits.
    pub(crate) fn next_step(&self, rows: usize) -> (InferenceStep, Range<usize>) {
        if self.is_decoding() { self.decode_step(rows) } else { self.prefill_step(rows) }
    }
}

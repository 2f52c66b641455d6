//! [`StoredSequence`]: the stored form of a sequence, as a list of sections.

use super::SNAPSHOTS;
use menagerie_model::StateId;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// The stored form of a sequence, without the values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StoredSequence {
    /// Tokens whose state is computed.
    pub(crate) tokens: usize,
    /// Those of them that were computed as a prompt.
    pub(crate) prompt: usize,
    /// The rope regime of the keys.
    pub(crate) regime: Regime,
    /// The number of state sets.
    pub(crate) sets: usize,
    /// By state id.
    pub(crate) states: Vec<StoredState>,
    /// Tokens of each snapshot, ascending.
    pub(crate) snapshots: Vec<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Regime {
    Short,
    Long,
}

/// A state of a sequence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub(crate) enum StoredState {
    /// Rows from the position `first` on.
    Rows { name: String, row_bytes: usize, window: Option<usize>, first: usize },
    /// A block of f32.
    Block { name: String, elements: usize },
}

/// A part of a sequence with its own checksum.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum StateSection {
    /// Token ids, u32.
    Tokens,
    /// Rows of a state, in the type in which they are cached.
    Rows { set: usize, state: StateId, positions: Range<usize>, row_bytes: usize },
    /// The block of a state, f32.
    Block { set: usize, state: StateId, elements: usize },
    /// A block of a snapshot, f32.
    Copy { snapshot: usize, elements: usize },
}

impl StateSection {
    /// Its bytes; `None` if the number overflows.
    pub(crate) fn bytes(&self, tokens: usize) -> Option<u64> {
        let bytes = match self {
            Self::Tokens => tokens.checked_mul(4),
            Self::Rows { positions, row_bytes, .. } => positions.len().checked_mul(*row_bytes),
            Self::Block { elements, .. } | Self::Copy { elements, .. } => elements.checked_mul(4),
        };
        bytes.and_then(|bytes| u64::try_from(bytes).ok())
    }

    /// Its name in messages.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Tokens => "list of tokens",
            Self::Rows { .. } => "rows of a cache",
            Self::Block { .. } => "recurrent state",
            Self::Copy { .. } => "snapshot of a recurrent state",
        }
    }
}

impl StoredSequence {
    /// The same without snapshots.
    pub(crate) fn without_snapshots(self) -> Self {
        Self { snapshots: Vec::new(), ..self }
    }

    /// By state: the first position whose rows are stored; 0 for a block.
    pub(crate) fn first(&self) -> Vec<usize> {
        let first = |state: &StoredState| match state {
            StoredState::Rows { first, .. } => *first,
            StoredState::Block { .. } => 0,
        };
        self.states.iter().map(first).collect()
    }

    /// Its sections, in order.
    pub(crate) fn sections(&self) -> Vec<StateSection> {
        let mut sections = vec![StateSection::Tokens];
        for set in 0..self.sets {
            for (index, state) in self.states.iter().enumerate() {
                let id = StateId(index);
                sections.push(match *state {
                    StoredState::Rows { row_bytes, first, .. } => {
                        StateSection::Rows { set, state: id, positions: first..self.tokens, row_bytes }
                    }
                    StoredState::Block { elements, .. } => StateSection::Block { set, state: id, elements },
                });
            }
        }
        for snapshot in 0..self.snapshots.len() {
            for _ in 0..self.sets {
                let blocks = self.states.iter().filter_map(|state| match state {
                    StoredState::Block { elements, .. } => Some(*elements),
                    StoredState::Rows { .. } => None,
                });
                sections.extend(blocks.map(|elements| StateSection::Copy { snapshot, elements }));
            }
        }
        sections
    }

    /// Why it cannot be a sequence of the same model and cache type as `now`.
    pub(crate) fn fault(&self, now: &Self) -> Option<String> {
        let same = |(state, now): (&StoredState, &StoredState)| match (state, now) {
            (
                StoredState::Rows { name, row_bytes, window, first },
                StoredState::Rows { name: n, row_bytes: r, window: w, .. },
            ) => (name, row_bytes, window) == (n, r, w) && *first <= self.tokens,
            (block, now) => block == now,
        };
        if self.sets != now.sets || self.states.len() != now.states.len() {
            return Some("its states differ from those of the model".to_owned());
        }
        if let Some(at) = self.states.iter().zip(&now.states).position(|pair| !same(pair)) {
            return Some(format!("its state {at} differs from that of the model"));
        }
        if self.prompt > self.tokens {
            return Some("its prompt is longer than the sequence".to_owned());
        }
        let recurrent = self.states.iter().any(|state| matches!(state, StoredState::Block { .. }));
        let most = if recurrent { SNAPSHOTS } else { 0 };
        let ascending = self.snapshots.is_sorted() && self.snapshots.iter().all(|at| *at <= self.tokens);
        (self.snapshots.len() > most || !ascending)
            .then(|| "its snapshots do not belong to this sequence".to_owned())
    }
}

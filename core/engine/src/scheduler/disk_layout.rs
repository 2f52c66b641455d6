//! [`BlockLayout`]: which states a block on disk has, and where they are in its content.

use crate::error::GenerateError;
use menagerie_model::{StateId, StatePool, StateSpec};
use serde::Serialize;
use std::ops::Range;

/// The states of a model, as blocks have them.
#[derive(Clone, Debug, Serialize)]
pub(super) struct BlockLayout {
    /// Tokens of a block.
    pub(super) block_tokens: usize,
    /// State sets.
    sets: usize,
    /// By state id.
    states: Vec<LayoutState>,
    /// Tokens of a page, at whose beginning the rows of a window begin; 0 without windows.
    page_len: usize,
}

/// A state, as blocks have it.
#[derive(Clone, Debug, Serialize)]
enum LayoutState {
    /// A row for every token.
    Rows { name: String, row_bytes: usize },
    /// Rows that a window shows.
    Window { name: String, row_bytes: usize, window: usize },
    /// A recurrent state of so many f32.
    Recurrent { name: String, elements: usize },
}

/// A part of the content of a file.
pub(super) struct LayoutPart {
    pub(super) set: usize,
    pub(super) state: StateId,
    /// The positions of the rows; `None` for a recurrent state.
    pub(super) positions: Option<Range<usize>>,
    pub(super) bytes: usize,
}

impl BlockLayout {
    /// The layout of the states of a pool.
    ///
    /// # Errors
    /// The size of a row overflows.
    pub(super) fn of(pool: &StatePool, block_tokens: usize) -> Result<Self, GenerateError> {
        let state = |(index, spec): (usize, &StateSpec)| {
            let name = spec.name().to_owned();
            Ok::<_, GenerateError>(match spec {
                StateSpec::PerToken { window: None, .. } => {
                    LayoutState::Rows { name, row_bytes: pool.row_bytes(StateId(index))? }
                }
                StateSpec::PerToken { window: Some(window), .. } => {
                    LayoutState::Window { name, row_bytes: pool.row_bytes(StateId(index))?, window: *window }
                }
                StateSpec::PerSequence { .. } => LayoutState::Recurrent { name, elements: spec.elements() },
            })
        };
        let states = pool.specs().iter().enumerate().map(state).collect::<Result<_, _>>()?;
        let page_len = if pool.has_windows() { pool.page_len() } else { 0 };
        Ok(Self { block_tokens, sets: pool.sets(), states, page_len })
    }

    /// Whether a sequence also needs a snapshot to start with blocks: a state does not keep a row for every token.
    pub(super) fn needs_snapshot(&self) -> bool {
        self.states.iter().any(|state| !matches!(state, LayoutState::Rows { .. }))
    }

    /// The parts of the file with the rows of the block at this index.
    pub(super) fn rows(&self, block: usize) -> Vec<LayoutPart> {
        let positions = block * self.block_tokens..(block + 1) * self.block_tokens;
        self.parts(|state| match state {
            LayoutState::Rows { row_bytes, .. } => Some((Some(positions.clone()), *row_bytes)),
            _ => None,
        })
    }

    /// The parts of the snapshot after `tokens` tokens.
    pub(super) fn snapshot(&self, tokens: usize) -> Vec<LayoutPart> {
        self.parts(|state| match state {
            LayoutState::Rows { .. } => None,
            LayoutState::Window { row_bytes, window, .. } => {
                Some((Some(self.first_shown(tokens, *window)..tokens), *row_bytes))
            }
            LayoutState::Recurrent { elements, .. } => Some((None, elements * size_of::<f32>())),
        })
    }

    /// By state: the first position whose rows a sequence of `tokens` tokens has.
    pub(super) fn first(&self, tokens: usize) -> Vec<usize> {
        let first = |state: &LayoutState| match state {
            LayoutState::Window { window, .. } => self.first_shown(tokens, *window),
            LayoutState::Rows { .. } | LayoutState::Recurrent { .. } => 0,
        };
        self.states.iter().map(first).collect()
    }

    /// The beginning of the page of the first token that a query after `tokens` tokens sees through a window.
    fn first_shown(&self, tokens: usize, window: usize) -> usize {
        let first = (tokens + 1).saturating_sub(window).min(tokens);
        first - first % self.page_len.max(1)
    }

    /// The parts of a file: the positions and the bytes of a row or of the whole state, set by set.
    fn parts(&self, of: impl Fn(&LayoutState) -> Option<(Option<Range<usize>>, usize)>) -> Vec<LayoutPart> {
        let mut parts = Vec::new();
        for set in 0..self.sets {
            for (index, state) in self.states.iter().enumerate() {
                if let Some((positions, unit)) = of(state) {
                    let count = positions.as_ref().map_or(1, Range::len);
                    let bytes = unit.saturating_mul(count);
                    parts.push(LayoutPart { set, state: StateId(index), positions, bytes });
                }
            }
        }
        parts
    }
}

/// Bytes of the content of a file.
pub(super) fn content_bytes(parts: &[LayoutPart]) -> usize {
    parts.iter().map(|part| part.bytes).sum()
}

//! [`Engine`]: a model, its device and its arithmetic; immutable, and shared by all sequences.

use crate::error::GenerateError;
use menagerie_model::{
    AdapterSet, Compute, Executor, KvType, ModelError, PoolOptions, RopeRegime, StateId, StatePool,
    StateSpec, WeightGuard,
};
use std::sync::Arc;

/// The default number of prompt tokens that one step computes.
pub const DEFAULT_CHUNK: usize = 512;

/// The default context in tokens: enough for a conversation, small enough for most machines.
pub const DEFAULT_CONTEXT: usize = 8192;

/// A model with everything that stays the same from call to call.
#[derive(Clone)]
pub struct Engine {
    /// Runs the steps: one model, or the stages of one.
    pub model: Arc<dyn Executor>,
    /// Backend and arithmetic.
    pub compute: Compute,
    /// The type of cached keys and values, for states that do not choose their own.
    pub kv_type: KvType,
    /// The most tokens of a sequence.
    pub context: usize,
    /// The number of learned positions, if the model has them: the context cannot be larger.
    pub learned_positions: Option<usize>,
    /// The most rows of a step; a longer prompt is computed in chunks.
    pub chunk: usize,
    /// Checks that the weights are still readable; called after each step.
    pub guard: Option<Arc<WeightGuard>>,
    /// The adapters of sequences for which no others are chosen.
    pub adapters: Option<Arc<AdapterSet>>,
}

impl Engine {
    /// The width of the logits.
    pub fn vocabulary(&self) -> usize {
        self.model.logits_width()
    }

    /// The sizes of a pool for `sequences` sequences of the context's length that share `capacity_tokens`.
    pub fn pool_options(&self, sequences: usize, capacity_tokens: usize) -> PoolOptions {
        PoolOptions {
            capacity_tokens,
            max_sequence_tokens: self.context,
            ..PoolOptions::sequences(self.kv_type, sequences, self.context).with_step_tokens(self.chunk)
        }
    }

    /// An empty pool on the engine's device.
    ///
    /// # Errors
    /// The cache type does not fit a state, or there is not enough memory.
    pub fn pool(&self, options: PoolOptions) -> Result<StatePool, ModelError> {
        self.model.pool(&self.compute, options.with_sets(self.model.state_sets()))
    }

    /// Whether a state cannot be truncated.
    pub(crate) fn is_recurrent(&self) -> bool {
        self.model.states().iter().any(|spec| matches!(spec, StateSpec::PerSequence { .. }))
    }

    /// Whether a sequence can be rewound to any of its tokens: every state keeps a row for each.
    pub(crate) fn rewinds_anywhere(&self) -> bool {
        let keeps_all = |spec: &StateSpec| matches!(spec, StateSpec::PerToken { window: None, .. });
        self.model.states().iter().all(keeps_all)
    }

    /// The rope regime of a sequence of `total` tokens.
    pub(crate) fn regime_of(&self, total: usize) -> RopeRegime {
        RopeRegime::for_length(total, self.model.shape().rope_regime_limit)
    }

    /// Whether a prompt must be computed in one step.
    pub fn takes_whole_prompts(&self) -> bool {
        self.model.is_bidirectional() || self.model.takes_whole_prompts()
    }

    /// Checks that the model can embed these tokens.
    ///
    /// # Errors
    /// [`GenerateError::TokenOutOfRange`] names the first one that it cannot.
    pub(crate) fn check_tokens(&self, tokens: &[u32]) -> Result<(), GenerateError> {
        check_vocabulary(tokens, self.model.vocabulary())
    }

    /// Checks that the states can be read, before anything is computed: stages in other processes do not allow it.
    ///
    /// # Errors
    /// The states cannot be read.
    pub(crate) fn check_readable(&self) -> Result<(), GenerateError> {
        let mut pool = self.pool(PoolOptions::one_sequence(self.kv_type, 1))?;
        let sequence = pool.create()?;
        let states = pool.specs().len();
        pool.refill(sequence, 1, &vec![0; states])?;
        for state in (0..states).map(StateId) {
            match pool.specs()[state.0] {
                StateSpec::PerToken { .. } => drop(pool.read_rows(state, sequence, 0..1)?),
                StateSpec::PerSequence { .. } => drop(pool.read_block(state, sequence)?),
            }
        }
        Ok(())
    }

    /// The error of a sequence with too many tokens.
    pub fn too_long(&self, tokens: usize) -> GenerateError {
        GenerateError::too_long(tokens, self.context, self.learned_positions)
    }

    /// Checks that a prompt can be computed.
    ///
    /// # Errors
    /// [`GenerateError::EmptyPrompt`], [`GenerateError::PromptTooLong`], [`GenerateError::PastPositions`] or
    /// [`GenerateError::TokenOutOfRange`].
    pub fn check_prompt(&self, tokens: &[u32]) -> Result<(), GenerateError> {
        if tokens.is_empty() {
            return Err(GenerateError::EmptyPrompt);
        }
        if tokens.len() > self.context {
            return Err(self.too_long(tokens.len()));
        }
        self.check_tokens(tokens)
    }
}

/// Adds room for one snapshot of windowed layers, to which a sequence can be rewound, to the sizes of a pool.
pub fn with_snapshot_room(room: PoolOptions, states: &[StateSpec]) -> PoolOptions {
    let window = |spec: &StateSpec| match spec {
        StateSpec::PerToken { window, .. } => *window,
        StateSpec::PerSequence { .. } => None,
    };
    let Some(widest) = states.iter().filter_map(window).max() else { return room };
    // Enough wherever both windows start and end in their pages.
    let more = widest.saturating_add(2 * room.page_len);
    room.with_step_tokens(room.step_tokens.saturating_add(more))
}

/// Checks that values are finite; `values` are rows of `width`, the first of them at `first_position`.
///
/// # Errors
/// [`GenerateError::NotFinite`] names the first one that is not.
pub(crate) fn check_finite(
    values: &[f32],
    width: usize,
    first_position: usize,
    kv_type: KvType,
) -> Result<(), GenerateError> {
    // One pass without branches: a row of logits is checked in microseconds.
    let is_bad = |value: &f32| value.to_bits() & f32::INFINITY.to_bits() == f32::INFINITY.to_bits();
    if !values.iter().fold(false, |bad, value| bad | is_bad(value)) {
        return Ok(());
    }
    let index = values.iter().position(is_bad).unwrap_or(0);
    Err(GenerateError::NotFinite {
        position: first_position + index / width.max(1),
        column: index % width.max(1),
        value: values.get(index).copied().unwrap_or(f32::NAN),
        kv_type,
    })
}

/// Checks that token ids are below `vocabulary`.
///
/// # Errors
/// [`GenerateError::TokenOutOfRange`] names the first one that is not.
pub(crate) fn check_vocabulary(tokens: &[u32], vocabulary: usize) -> Result<(), GenerateError> {
    match tokens.iter().position(|&id| id as usize >= vocabulary) {
        Some(index) => Err(GenerateError::TokenOutOfRange { id: tokens[index], index, vocabulary }),
        None => Ok(()),
    }
}

//! [`Engine`]: a model, how it computes and how its state is kept; immutable and shared by every sequence.

use crate::error::GenerateError;
use menagerie_model::{
    AdapterSet, Compute, Executor, KvType, ModelError, PoolOptions, RopeRegime, StatePool, StateSpec,
    WeightGuard,
};
use std::sync::Arc;

/// Tokens of a prompt computed in one step, unless told otherwise.
pub const DEFAULT_CHUNK: usize = 512;

/// Default maximum of the context in tokens: enough for a conversation, small enough for most machines.
pub const DEFAULT_CONTEXT: usize = 8192;

/// A model with everything that stays the same from call to call.
#[derive(Clone)]
pub struct Engine {
    /// What runs steps: one model, or the stages of one.
    pub model: Arc<dyn Executor>,
    /// Backend and arithmetic.
    pub compute: Compute,
    /// How keys and values are stored that ask for no type themselves.
    pub kv_type: KvType,
    /// Most tokens of a sequence.
    pub context: usize,
    /// Learned positions, if the model has them: the context is no larger, and cannot be.
    pub learned_positions: Option<usize>,
    /// Most rows of a step: a longer prompt is computed in chunks.
    pub chunk: usize,
    /// Says whether the weights can still be read; asked after each step.
    pub guard: Option<Arc<WeightGuard>>,
    /// The adapters of sequences that are given no others.
    pub adapters: Option<Arc<AdapterSet>>,
}

impl Engine {
    /// Columns of the logits.
    pub fn vocabulary(&self) -> usize {
        self.model.logits_width()
    }

    /// Room for `sequences` sequences of the context's length, which share `capacity_tokens`.
    pub fn pool_options(&self, sequences: usize, capacity_tokens: usize) -> PoolOptions {
        PoolOptions {
            capacity_tokens,
            max_sequence_tokens: self.context,
            ..PoolOptions::sequences(self.kv_type, sequences, self.context).with_step_tokens(self.chunk)
        }
    }

    /// An empty pool where the engine computes.
    ///
    /// # Errors
    /// The cache type does not fit a state, or there is no room.
    pub fn pool(&self, options: PoolOptions) -> Result<StatePool, ModelError> {
        self.model.pool(&self.compute, options.with_sets(self.model.state_sets()))
    }

    /// Whether a state cannot be truncated.
    pub(crate) fn is_recurrent(&self) -> bool {
        self.model.states().iter().any(|spec| matches!(spec, StateSpec::PerSequence { .. }))
    }

    /// Whether a sequence can go back to any of its tokens: every state keeps a row for each.
    pub(crate) fn goes_back_anywhere(&self) -> bool {
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

    /// Refuses tokens that the model cannot embed.
    ///
    /// # Errors
    /// [`GenerateError::TokenOutOfRange`] names the first one.
    pub fn check_tokens(&self, tokens: &[u32]) -> Result<(), GenerateError> {
        check_vocabulary(tokens, self.model.vocabulary())
    }

    /// Why so many tokens do not fit.
    pub fn too_long(&self, tokens: usize) -> GenerateError {
        GenerateError::too_long(tokens, self.context, self.learned_positions)
    }

    /// Refuses prompts that do not fit.
    ///
    /// # Errors
    /// [`GenerateError::EmptyPrompt`], [`GenerateError::PromptTooLong`] or [`GenerateError::PastPositions`].
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

/// The same room, and beside it for what windows show at one more point of a sequence, which it can go back to.
pub fn with_point(room: PoolOptions, states: &[StateSpec]) -> PoolOptions {
    let window = |spec: &StateSpec| match spec {
        StateSpec::PerToken { window, .. } => *window,
        StateSpec::PerSequence { .. } => None,
    };
    let Some(widest) = states.iter().filter_map(window).max() else { return room };
    // Wherever both begin and end on their pages.
    let more = widest.saturating_add(2 * room.page_len);
    room.with_step_tokens(room.step_tokens.saturating_add(more))
}

/// Refuses numbers that are none, in rows of `width` after the positions from `first_position` on.
///
/// # Errors
/// [`GenerateError::NotFinite`] names the first one.
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

/// Refuses tokens past a vocabulary.
///
/// # Errors
/// [`GenerateError::TokenOutOfRange`] names the first one.
pub(crate) fn check_vocabulary(tokens: &[u32], vocabulary: usize) -> Result<(), GenerateError> {
    match tokens.iter().position(|&id| id as usize >= vocabulary) {
        Some(index) => Err(GenerateError::TokenOutOfRange { id: tokens[index], index, vocabulary }),
        None => Ok(()),
    }
}

//! [`Scheduler`]: steps of one or several sequences over one pool of state.
//!
//! The only place that advances the pool, and the only place that decides about the rope regime. A step takes rows of
//! every sequence that has some, up to a budget: decoding sequences first, prompts in chunks with what is left, so that no
//! sequence waits for its next token longer than one step takes. Sequences that begin alike share pages ([`kept`]); where
//! pages run out, the least urgent sequence gives its own up, which is set aside or computed again later ([`room`]). What goes wrong with
//! one sequence (no room for it alone, logits that are none) ends that one; the others do not notice.

mod answer_start;
mod commit;
mod forward;
mod memory;
mod plan;
mod prefix_cache;
mod rewind;
mod storage;
mod swapping;

pub(crate) use plan::PlannedRows;
pub(crate) use prefix_cache::{MIN_SHARED_TOKENS, PrefixQuery, PrefixSource};
pub(crate) use storage::{StateRead, StateWrite};

use crate::adapter_choice::AdapterChoice;
use crate::engine::{DEFAULT_CHUNK, DEFAULT_CONTEXT, Engine, with_point};
use crate::error::GenerateError;
use crate::hooks::PipelineHooks;
use crate::sequence::Sequence;
use crate::setters::setters;
use crate::stats::SchedulerCounts;
use menagerie_model::{PoolOptions, StatePool};
use std::sync::Arc;

/// How much a [`Scheduler`] takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SchedulerOptions {
    /// Most sequences at once.
    pub sequences: usize,
    /// Most sequences that are kept after their end for others that begin alike.
    pub prefixes: usize,
    /// Tokens of all sequences together; one alone may have as many as the engine's context.
    pub capacity_tokens: usize,
    /// Most rows of a step, of all sequences together.
    pub step_tokens: usize,
    /// Bytes of memory for copies of what sequences held that gave their pages up for more urgent ones; what does not fit
    /// is computed again.
    pub aside_bytes: usize,
}

setters! { SchedulerOptions:
    with_sequences(sequences: usize),
    with_prefixes(prefixes: usize),
    with_capacity_tokens(capacity_tokens: usize),
    with_step_tokens(step_tokens: usize),
    with_aside_bytes(aside_bytes: usize),
}

impl Default for SchedulerOptions {
    /// Four sequences that share [`DEFAULT_CONTEXT`] tokens, as many that are kept after their end, and nothing set aside.
    fn default() -> Self {
        Self {
            sequences: 4,
            prefixes: 4,
            capacity_tokens: DEFAULT_CONTEXT,
            step_tokens: DEFAULT_CHUNK,
            aside_bytes: 0,
        }
    }
}

/// Runs sequences of an engine, several in one step.
pub struct Scheduler {
    pub(crate) engine: Arc<Engine>,
    pub(crate) hooks: PipelineHooks,
    pub(crate) pool: StatePool,
    pub(crate) step_tokens: usize,
    /// Most sequences that run at once.
    sequences: usize,
    /// Sequences that ended and that others may go on from; the one used last is last.
    cached: Vec<Sequence>,
    /// Most of them.
    prefixes: usize,
    /// Most bytes that are set aside.
    aside_bytes: usize,
    /// Sequences so far.
    arrivals: u64,
    pub(crate) counts: SchedulerCounts,
    /// Of them, what lifecycles have been told.
    told: SchedulerCounts,
}

impl Scheduler {
    /// A scheduler with a pool of its own.
    ///
    /// # Errors
    /// The state cannot be allocated.
    pub fn new(
        engine: Arc<Engine>,
        hooks: impl Into<PipelineHooks>,
        options: SchedulerOptions,
    ) -> Result<Self, GenerateError> {
        let SchedulerOptions { sequences, prefixes, capacity_tokens, step_tokens, aside_bytes } = options;
        let room = engine.pool_options(sequences.saturating_add(prefixes), capacity_tokens);
        let made = Self::with_pool(engine, hooks, room, step_tokens)?;
        Ok(made.with_prefixes(prefixes).with_aside(aside_bytes))
    }

    /// The same keeping so many of its pool's places for sequences that ended and that others may go on from.
    pub fn with_prefixes(mut self, prefixes: usize) -> Self {
        let places = self.pool.options().sequences;
        self.sequences = places.saturating_sub(prefixes).max(1);
        self.prefixes = prefixes;
        self
    }

    /// The same with so many bytes of memory for what sequences held that gave their pages up.
    pub fn with_aside(mut self, bytes: usize) -> Self {
        self.aside_bytes = bytes;
        self
    }

    /// A scheduler whose pool is laid out as `room` says, apart from the rows of a step.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn with_pool(
        engine: Arc<Engine>,
        hooks: impl Into<PipelineHooks>,
        room: PoolOptions,
        step_tokens: usize,
    ) -> Result<Self, GenerateError> {
        Self::over(engine, hooks.into(), room.with_step_tokens(step_tokens), step_tokens)
    }

    /// A scheduler over a pool that is laid out so, whose steps have no more rows than this.
    fn over(
        engine: Arc<Engine>,
        hooks: PipelineHooks,
        room: PoolOptions,
        step_tokens: usize,
    ) -> Result<Self, GenerateError> {
        if step_tokens == 0 {
            return Err(GenerateError::Options(
                "a step of 0 rows computes nothing; give 1 or more".to_owned(),
            ));
        }
        let pool = engine.pool(room)?;
        let (counts, sequences) = (SchedulerCounts::default(), room.sequences);
        Ok(Self {
            engine,
            hooks,
            pool,
            step_tokens,
            sequences,
            cached: Vec::new(),
            prefixes: 0,
            aside_bytes: 0,
            arrivals: 0,
            counts,
            told: counts,
        })
    }

    /// A scheduler for one sequence of the engine's context, with chunks as the engine says and room for a point that its windows
    /// can go back to.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn for_one(engine: Arc<Engine>, hooks: impl Into<PipelineHooks>) -> Result<Self, GenerateError> {
        let (room, chunk) = (engine.pool_options(1, engine.context), engine.chunk);
        let room = with_point(room, engine.model.states());
        Self::over(engine, hooks.into(), room, chunk)
    }

    /// The engine it runs.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// What is called while it works.
    pub fn hooks(&self) -> &PipelineHooks {
        &self.hooks
    }

    /// Most sequences that run at once.
    pub fn sequences(&self) -> usize {
        self.sequences
    }

    /// Bytes of state that hold tokens now, those of kept sequences included.
    pub fn state_bytes(&self) -> usize {
        self.pool.bytes()
    }

    /// Whether a token's state is the same as part of a prompt and as one that was generated.
    pub(crate) fn is_uniform(&self) -> bool {
        !self.engine.takes_whole_prompts() && self.hooks.layers.is_uniform()
    }

    /// Tells lifecycles what it did since they were told last.
    pub(crate) fn report_counts(&mut self) {
        let done = self.counts.since(&self.told);
        if done != SchedulerCounts::default() {
            self.told = self.counts;
            self.hooks.counted(&done);
        }
    }

    /// What it did so far.
    pub fn counts(&self) -> &SchedulerCounts {
        &self.counts
    }

    /// An empty sequence.
    ///
    /// # Errors
    /// The pool has no place for another.
    pub fn create(&mut self) -> Result<Sequence, GenerateError> {
        let id = loop {
            match self.pool.create() {
                Ok(id) => break id,
                Err(error) => self.evict(None)?.then_some(()).ok_or(error)?,
            }
        };
        let sequence = Sequence::new(id, self.engine.adapters.clone());
        Ok(self.arrived(sequence))
    }

    /// Ends a sequence and gives its state back.
    ///
    /// # Errors
    /// The sequence is another scheduler's.
    pub fn free(&mut self, sequence: Sequence) -> Result<(), GenerateError> {
        Ok(self.pool.free(sequence.id)?)
    }

    /// Forgets every token of a sequence.
    ///
    /// # Errors
    /// The sequence is another scheduler's.
    pub fn reset(&mut self, sequence: &mut Sequence) -> Result<(), GenerateError> {
        sequence.prompt = 0;
        sequence.chunk_boundaries.clear();
        sequence.snapshot_positions.clear();
        self.go_back(sequence, 0)
    }

    /// Chooses the adapters that act on a sequence; where they are others than before, every token of it is forgotten,
    /// since its state was computed with those.
    ///
    /// # Errors
    /// The sequence is another scheduler's.
    pub fn adapt(&mut self, sequence: &mut Sequence, adapted: &AdapterChoice) -> Result<(), GenerateError> {
        let adapters = self.adapters_of(adapted);
        if !prefix_cache::are_same(adapters.as_ref(), sequence.adapters.as_ref()) {
            self.reset(sequence)?;
        }
        sequence.adapters = adapters;
        Ok(())
    }
}

impl Drop for Scheduler {
    /// Tells of what it did since its last step.
    fn drop(&mut self) {
        self.report_counts();
    }
}

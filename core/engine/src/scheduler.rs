//! [`Scheduler`]: steps of one or several sequences over one pool of state.
//!
//! Only the scheduler advances the pool and chooses the rope regime of a sequence. A step has a limited number of
//! rows. Sequences that decode get their row first, and prompts get the rest in chunks, so no sequence waits longer
//! than one step for its next token. The time of a step can be bounded, too (`step_budget`). Sequences with the same prefix share its pages (`prefix_cache`). If the pool runs
//! out of pages, the least urgent sequence is preempted; its state is swapped out or computed again later (`memory`).
//! An error in one sequence (it does not fit even alone, or its logits are NaN) fails only that sequence.

mod answer_start;
mod commit;
mod disk_blocks;
mod disk_layout;
mod disk_states;
mod drafts;
mod forward;
mod head_guesses;
mod memory;
mod plan;
mod prefix_cache;
mod replay;
mod rewind;
mod started_step;
mod storage;
mod swapping;

use disk_states::DiskStates;
pub(crate) use drafts::{check_drafts, check_head};
pub(crate) use plan::PlannedRows;
pub(crate) use prefix_cache::{MIN_SHARED_TOKENS, PrefixQuery, PrefixSource};
pub(crate) use started_step::StartedStep;
pub(crate) use storage::{StateRead, StateWrite};

use crate::adapter_choice::AdapterChoice;
use crate::disk_cache::DiskCache;
use crate::draft::{DecodeCosts, DraftPace};
use crate::engine::{DEFAULT_CHUNK, DEFAULT_CONTEXT, Engine, with_snapshot_room};
use crate::error::GenerateError;
use crate::hooks::PipelineHooks;
use crate::sequence::Sequence;
use crate::setters::setters;
use crate::stats::SchedulerCounts;
use crate::step_budget::StepBudget;
use menagerie_model::{PoolOptions, StatePool};
use std::sync::Arc;
use std::time::Duration;

/// The limits of a [`Scheduler`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SchedulerOptions {
    /// The most sequences that run at once.
    pub sequences: usize,
    /// The most sequences that are cached after their end, for prompts with the same prefix.
    pub prefixes: usize,
    /// Tokens of all sequences together. A single sequence may have as many as the engine's context.
    pub capacity_tokens: usize,
    /// The most rows of a step, of all sequences together.
    pub step_tokens: usize,
    /// Bytes of host memory for the state of preempted sequences. State that does not fit is computed again.
    pub swap_bytes: usize,
    /// Bounds the time of steps in which sequences decode: the rows of prompts in such a step are as many as the last
    /// steps computed in this time, at least 32 and at most [`Self::step_tokens`]. `None` = no bound. Models that
    /// compute a prompt as a whole have no bound.
    pub step_time: Option<Duration>,
}

setters! { SchedulerOptions:
    with_sequences(sequences: usize),
    with_prefixes(prefixes: usize),
    with_capacity_tokens(capacity_tokens: usize),
    with_step_tokens(step_tokens: usize),
    with_swap_bytes(swap_bytes: usize),
    with_step_time(step_time: impl Into<Option<Duration>>),
}

impl Default for SchedulerOptions {
    /// Four sequences that share [`DEFAULT_CONTEXT`] tokens, four cached prefixes, no memory for preempted sequences,
    /// and steps of any time.
    fn default() -> Self {
        Self {
            sequences: 4,
            prefixes: 4,
            capacity_tokens: DEFAULT_CONTEXT,
            step_tokens: DEFAULT_CHUNK,
            swap_bytes: 0,
            step_time: None,
        }
    }
}

/// Runs the sequences of an engine, several in one step.
pub struct Scheduler {
    pub(crate) engine: Arc<Engine>,
    pub(crate) hooks: PipelineHooks,
    pub(crate) pool: StatePool,
    pub(crate) step_tokens: usize,
    /// The time of steps in which sequences decode.
    step_time: Option<Duration>,
    pub(crate) budget: StepBudget,
    /// When steps compute guesses of next tokens, and the times that decide it.
    pub(crate) draft_pace: DraftPace,
    pub(crate) costs: DecodeCosts,
    /// The time in which the newest step copied recurrent states, so that wrong guesses can be undone.
    pub(crate) copy_time: Duration,
    /// The most sequences that run at once.
    sequences: usize,
    /// Sequences that have ended, whose state others may start with; the one used last is at the end.
    cached: Vec<Sequence>,
    /// The most of them.
    prefixes: usize,
    /// The most bytes of swapped state.
    swap_bytes: usize,
    /// Where states are stored for later requests of this and other processes.
    disk: Option<DiskStates>,
    /// The number of sequences created so far.
    arrivals: u64,
    pub(crate) counts: SchedulerCounts,
    /// The counts at the last report to the lifecycles.
    told: SchedulerCounts,
}

impl Scheduler {
    /// A scheduler with its own pool.
    ///
    /// # Errors
    /// The state cannot be allocated.
    pub fn new(
        engine: Arc<Engine>,
        hooks: impl Into<PipelineHooks>,
        options: SchedulerOptions,
    ) -> Result<Self, GenerateError> {
        let SchedulerOptions { sequences, prefixes, capacity_tokens, step_tokens, swap_bytes, step_time } =
            options;
        let room = engine.pool_options(sequences.saturating_add(prefixes), capacity_tokens);
        let mut made = Self::with_pool(engine, hooks, room, step_tokens)?;
        made.step_time = step_time;
        Ok(made.with_prefixes(prefixes).with_swap_bytes(swap_bytes))
    }

    /// Reserves `prefixes` of the pool's places for cached sequences.
    pub fn with_prefixes(mut self, prefixes: usize) -> Self {
        let places = self.pool.options().sequences;
        self.sequences = places.saturating_sub(prefixes).max(1);
        self.prefixes = prefixes;
        self
    }

    /// Sets the bytes of host memory for the state of preempted sequences.
    pub fn with_swap_bytes(mut self, bytes: usize) -> Self {
        self.swap_bytes = bytes;
        self
    }

    /// Stores the states of requests in this cache, and lets requests start with states that are in it.
    ///
    /// # Errors
    /// The cache was opened for another model; hooks act on prompts and on generated tokens in different ways, so that
    /// states depend on where a prompt ends.
    pub fn with_disk_cache(mut self, cache: Option<Arc<DiskCache>>) -> Result<Self, GenerateError> {
        let Some(cache) = cache else { return Ok(self) };
        if !self.is_uniform() {
            return Err(GenerateError::Options(format!(
                "{}: a hook acts only on prompts or only on generated tokens, so the states cannot be cached on disk; leave \
                 the hook or the disk cache out",
                cache.folder().path().display()
            )));
        }
        self.disk = Some(DiskStates::new(cache, &self.engine, &self.pool)?);
        Ok(self)
    }

    /// A scheduler with a pool of these sizes; `step_tokens` is the most rows of a step.
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

    /// A scheduler with a pool of these sizes, for steps of at most `step_tokens` rows.
    fn over(
        engine: Arc<Engine>,
        hooks: PipelineHooks,
        room: PoolOptions,
        step_tokens: usize,
    ) -> Result<Self, GenerateError> {
        if step_tokens == 0 {
            return Err(GenerateError::Options(
                "a step of 0 rows computes nothing; use 1 or more".to_owned(),
            ));
        }
        let pool = engine.pool(room)?;
        let (counts, sequences) = (SchedulerCounts::default(), room.sequences);
        Ok(Self {
            engine,
            hooks,
            pool,
            step_tokens,
            step_time: None,
            budget: StepBudget::default(),
            draft_pace: DraftPace::default(),
            costs: DecodeCosts::default(),
            copy_time: Duration::ZERO,
            sequences,
            cached: Vec::new(),
            prefixes: 0,
            swap_bytes: 0,
            disk: None,
            arrivals: 0,
            counts,
            told: counts,
        })
    }

    /// A scheduler for one sequence of the engine's context and chunks. Its pool has room for one snapshot of windowed
    /// layers.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn for_one(engine: Arc<Engine>, hooks: impl Into<PipelineHooks>) -> Result<Self, GenerateError> {
        let (room, chunk) = (engine.pool_options(1, engine.context), engine.chunk);
        let room = with_snapshot_room(room, engine.model.states());
        Self::over(engine, hooks.into(), room, chunk)
    }

    /// Its engine.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// Its hooks.
    pub fn hooks(&self) -> &PipelineHooks {
        &self.hooks
    }

    /// The most sequences that run at once.
    pub fn sequences(&self) -> usize {
        self.sequences
    }

    /// Bytes of state that hold tokens now, including those of cached sequences.
    pub fn state_bytes(&self) -> usize {
        self.pool.bytes()
    }

    /// Whether a token has the same state in a prompt and as a generated token.
    pub(crate) fn is_uniform(&self) -> bool {
        !self.engine.takes_whole_prompts() && self.hooks.layers.is_uniform()
    }

    /// Reports to the lifecycles what it did since the last report.
    pub(crate) fn report_counts(&mut self) {
        let done = self.counts.since(&self.told);
        if done != SchedulerCounts::default() {
            self.told = self.counts;
            self.hooks.counted(&done);
        }
        if let Some(disk) = &self.disk {
            disk.report(&self.hooks);
        }
    }

    /// What it has done so far.
    pub fn counts(&self) -> &SchedulerCounts {
        &self.counts
    }

    /// An empty sequence.
    ///
    /// # Errors
    /// The pool has no place for another sequence.
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

    /// Drops a sequence and frees its state.
    ///
    /// # Errors
    /// The sequence belongs to another scheduler.
    pub(crate) fn free(&mut self, sequence: Sequence) -> Result<(), GenerateError> {
        Ok(self.pool.free(sequence.id)?)
    }

    /// Drops every token of a sequence.
    ///
    /// # Errors
    /// The sequence belongs to another scheduler.
    pub fn reset(&mut self, sequence: &mut Sequence) -> Result<(), GenerateError> {
        sequence.prompt = 0;
        sequence.chunk_boundaries.clear();
        sequence.snapshot_positions.clear();
        self.rewind(sequence, 0)
    }

    /// Sets the adapters of a sequence. If they change, every token is dropped, because its state was computed with
    /// the old ones.
    ///
    /// # Errors
    /// The sequence belongs to another scheduler.
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
    /// Waits until its blocks are on disk, and reports what it did since its last step.
    fn drop(&mut self) {
        if let Some(disk) = &self.disk {
            disk.flush();
        }
        self.report_counts();
    }
}

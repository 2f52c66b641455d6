//! [`Scheduler`]: steps of one or several sequences over one pool of state.
//!
//! The only place that advances the pool, and the only place that decides about the rope regime. A step takes rows of
//! every sequence that has some, up to a budget: decoding sequences first, prompts in chunks with what is left, so that no
//! sequence waits for its next token longer than one step takes. Sequences that begin alike share pages ([`kept`]); where
//! pages run out, the least urgent sequence gives its own up and is computed again later ([`room`]). What goes wrong with
//! one sequence (no room for it alone, logits that are none) ends that one; the others do not notice.

mod counts;
mod kept;
mod plan;
mod prefix;
mod room;
mod stored;

pub use counts::SchedulerCounts;
pub(crate) use kept::{Beginning, LEAST_SHARED, Source};

pub(crate) use prefix::SNAPSHOTS;
pub(crate) use stored::{Given, Piece, Section, StoredSequence};

use crate::adapters::Adapted;
use crate::engine::{Engine, check_finite};
use crate::error::GenerateError;
use crate::hooks::PipelineHooks;
use crate::lifecycle::StepReport;
use crate::sequence::{Sequence, Wanted};
use crate::step::{Step, StepPart, StepRows, own_rows, shared};
use menagerie_model::{
    AdapterSet, InferenceStep, ModelError, Part, PoolOptions, Rows, SequenceLayout, SequenceRows, StatePool,
    StepInput, TransformContext,
};
use plan::Planned;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// How much a [`Scheduler`] takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchedulerOptions {
    /// Most sequences at once.
    pub sequences: usize,
    /// Most sequences that are kept after their end for others that begin alike.
    pub prefixes: usize,
    /// Tokens of all sequences together; one alone may have as many as the engine's context.
    pub capacity_tokens: usize,
    /// Most rows of a step, of all sequences together.
    pub step_tokens: usize,
}

/// Runs sequences of an engine, several in one step.
pub struct Scheduler {
    engine: Arc<Engine>,
    hooks: PipelineHooks,
    pool: StatePool,
    step_tokens: usize,
    /// Most sequences that run at once.
    sequences: usize,
    /// Sequences that ended and that others may go on from; the one used last is last.
    kept: Vec<Sequence>,
    /// Most of them.
    prefixes: usize,
    /// Sequences so far.
    arrivals: u64,
    counts: SchedulerCounts,
}

/// Takes the logits `[T', V]` of each step of a sequence.
pub type OnStep<'a> = dyn FnMut(&Sequence, &[f32]) -> Result<(), GenerateError> + 'a;

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
        let SchedulerOptions { sequences, prefixes, capacity_tokens, step_tokens } = options;
        let room = engine.pool_options(sequences.saturating_add(prefixes), capacity_tokens);
        let made = Self::with_pool(engine, hooks, room, step_tokens)?;
        Ok(made.with_prefixes(prefixes))
    }

    /// The same keeping so many of its pool's places for sequences that ended and that others may go on from.
    pub fn with_prefixes(self, prefixes: usize) -> Self {
        let places = self.pool.options().sequences;
        Self { sequences: places.saturating_sub(prefixes).max(1), prefixes, ..self }
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
        if step_tokens == 0 {
            return Err(GenerateError::Options(
                "a step of 0 rows computes nothing; give 1 or more".to_owned(),
            ));
        }
        let pool = engine.pool(room.with_step_tokens(step_tokens))?;
        let hooks = hooks.into();
        let (counts, sequences) = (SchedulerCounts::default(), room.sequences);
        Ok(Self {
            engine,
            hooks,
            pool,
            step_tokens,
            sequences,
            kept: Vec::new(),
            prefixes: 0,
            arrivals: 0,
            counts,
        })
    }

    /// A scheduler for one sequence of the engine's context, with chunks as the engine says.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn for_one(engine: Arc<Engine>, hooks: impl Into<PipelineHooks>) -> Result<Self, GenerateError> {
        let (capacity_tokens, step_tokens) = (engine.context, engine.chunk);
        Self::new(engine, hooks, SchedulerOptions { sequences: 1, prefixes: 0, capacity_tokens, step_tokens })
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
    fn is_uniform(&self) -> bool {
        !self.engine.takes_whole_prompts() && self.hooks.layers.is_uniform()
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
        sequence.cuts.clear();
        self.go_back(sequence, 0)
    }

    /// Chooses the adapters that act on a sequence; where they are others than before, every token of it is forgotten,
    /// since its state was computed with those.
    ///
    /// # Errors
    /// The sequence is another scheduler's.
    pub fn adapt(&mut self, sequence: &mut Sequence, adapted: &Adapted) -> Result<(), GenerateError> {
        let adapters = self.adapters_of(adapted);
        if !kept::are_same(adapters.as_ref(), sequence.adapters.as_ref()) {
            self.reset(sequence)?;
        }
        sequence.adapters = adapters;
        Ok(())
    }

    /// Makes the sequence be `prompt`, to be computed by the next steps as far as its state is not held.
    ///
    /// The rope regime is that of the whole prompt; a held prefix of another regime is dropped.
    ///
    /// # Errors
    /// An empty prompt, one that does not fit, a token past the vocabulary; the sequence is then as it was.
    pub fn begin(
        &mut self,
        sequence: &mut Sequence,
        prompt: &[u32],
        wanted: Wanted,
    ) -> Result<(), GenerateError> {
        self.engine.check_prompt(prompt)?;
        let whole = self.engine.takes_whole_prompts();
        if whole && prompt.len() > self.step_tokens {
            return Err(GenerateError::Chunked { tokens: prompt.len(), chunk: self.step_tokens });
        }
        let regime = self.engine.regime_of(prompt.len());
        sequence.cuts.clear();
        let fresh = whole || wanted != Wanted::Last || regime != sequence.regime;
        let kept = if fresh { 0 } else { sequence.common_prefix(prompt) };
        // What was generated then is part of the prompt now, which a hook of one phase makes something else of.
        let kept = if self.is_uniform() { kept } else { kept.min(sequence.prompt) };
        self.go_back(sequence, kept)?;
        sequence.tokens.extend_from_slice(&prompt[sequence.held..]);
        (sequence.prompt, sequence.cached) = (prompt.len(), sequence.held);
        (sequence.wanted, sequence.regime) = (wanted, regime);
        Ok(())
    }

    /// Adds a token to be fed back by the next step. Gives whether everything is computed again: where the token takes the
    /// sequence over the limit of the short rope regime, the keys get the long one, as in HF transformers.
    ///
    /// # Errors
    /// A full context, a token past the vocabulary, a model that looks ahead, a regime that wants more in one step than it has.
    pub fn push(&mut self, sequence: &mut Sequence, token: u32) -> Result<bool, GenerateError> {
        self.engine.check_tokens(&[token])?;
        let total = sequence.tokens.len() + 1;
        if total > self.engine.context {
            return Err(GenerateError::PromptTooLong { tokens: total, context: self.engine.context });
        }
        if self.engine.model.looks_ahead() {
            return Err(GenerateError::LooksAhead);
        }
        let regime = self.engine.regime_of(total);
        let again = regime != sequence.regime && sequence.held > 0;
        if again && total > self.step_tokens && self.engine.takes_whole_prompts() {
            return Err(GenerateError::Chunked { tokens: total, chunk: self.step_tokens });
        }
        sequence.regime = regime;
        if again {
            let tokens = std::mem::take(&mut sequence.tokens);
            self.go_back(sequence, 0)?;
            sequence.tokens = tokens;
            (sequence.prompt, sequence.cached, sequence.wanted) = (total, 0, Wanted::Last);
            sequence.reprefills += 1;
        }
        sequence.tokens.push(token);
        Ok(again)
    }

    /// One forward over pending tokens of these sequences, of each once.
    ///
    /// A sequence that fails is in the result with its error, and holds what it held before, or nothing if there was no room
    /// for its rows. An error of the step itself is that of every sequence in it. Sequences for which the budget had no rows
    /// left are not in the result.
    pub fn step(&mut self, sequences: &mut [&mut Sequence], cancel: Option<&AtomicBool>) -> Step {
        if self.hooks.lifecycles.is_empty() {
            return self.unwatched_step(sequences, cancel);
        }
        let (began, before) = (Instant::now(), self.counts);
        let step = self.unwatched_step(sequences, cancel);
        let (done, state_bytes) = (self.counts.since(&before), self.state_bytes());
        let report = StepReport { done, state_bytes, time: began.elapsed() };
        self.hooks.lifecycles.iter().for_each(|one| one.stepped(&report));
        step
    }

    fn unwatched_step(&mut self, sequences: &mut [&mut Sequence], cancel: Option<&AtomicBool>) -> Step {
        let width = self.engine.vocabulary();
        if cancel.is_some_and(|flag| flag.load(Ordering::Relaxed)) {
            return Step { rows: StepRows::None, width, parts: cancelled(sequences) };
        }
        let (plan, mut parts) = self.plan(sequences);
        let logits = match self.run(&plan, sequences, cancel) {
            Ok(logits) => logits,
            Err(error) => {
                let others: Vec<GenerateError> = plan.iter().skip(1).map(|_| shared(&error)).collect();
                for (planned, error) in plan.iter().zip(std::iter::once(error).chain(others)) {
                    let error = self.recover(sequences[planned.index], error);
                    parts.push(StepPart { index: planned.index, result: Err(error) });
                }
                return Step { rows: StepRows::None, width, parts };
            }
        };
        let mut row = 0;
        for planned in plan {
            let rows = row..row + planned.logits.len();
            row = rows.end;
            let sequence = &mut *sequences[planned.index];
            let result = self.commit(sequence, &planned, &logits, rows.clone());
            let result = result.map(|()| rows).map_err(|error| self.recover(sequence, error));
            parts.push(StepPart { index: planned.index, result });
        }
        Step { rows: logits, width, parts }
    }

    /// Steps one sequence until it has no pending tokens; `on_step` is given the logits `[T', V]` of each step, which are
    /// none before the last chunk of a prompt unless all rows want them.
    ///
    /// # Errors
    /// What a step or `on_step` returns. Chunks that were finished stay held.
    pub fn feed(
        &mut self,
        sequence: &mut Sequence,
        cancel: Option<&AtomicBool>,
        on_step: &mut OnStep,
    ) -> Result<(), GenerateError> {
        while sequence.pending() > 0 {
            let mut step = self.step(&mut [&mut *sequence], cancel);
            let Some(part) = step.parts.pop() else { break };
            let rows = part.result?;
            let values = step.values()?;
            on_step(sequence, step.part(&values, &rows)?)?;
        }
        Ok(())
    }

    /// The forward itself. Appends to the states; lengths stay.
    fn run(
        &mut self,
        plan: &[Planned],
        sequences: &[&mut Sequence],
        cancel: Option<&AtomicBool>,
    ) -> Result<StepRows, GenerateError> {
        if plan.is_empty() {
            return Ok(StepRows::None);
        }
        let sets = StepSets::of(plan.iter().filter_map(|planned| sequences[planned.index].adapters.as_ref()));
        let part = |planned: &Planned| {
            let sequence = &sequences[planned.index];
            SequenceRows {
                sequence: sequence.id,
                rows: planned.rows.clone(),
                first_position: sequence.held,
                step: planned.step,
                regime: sequence.regime,
                logits: planned.logits.clone(),
                adapters: sequence.adapters.as_ref().and_then(|set| sets.index(set)),
            }
        };
        let layout = SequenceLayout::new(plan.iter().map(part).collect())?;
        let fed = |planned: &Planned| {
            let sequence = &sequences[planned.index];
            sequence.tokens[sequence.held..][..planned.rows.len()].iter().copied()
        };
        let tokens: Vec<u32> = plan.iter().flat_map(fed).collect();
        let result = self.forward(&layout, &tokens, &sets.0, cancel);
        // Pages that vanished under the mapping read as zeros: say so before anything computed from them is used.
        if let Some(guard) = &self.engine.guard {
            guard()?;
        }
        Ok(StepRows::new(result?, &self.engine.compute)?)
    }

    fn forward(
        &mut self,
        layout: &SequenceLayout,
        tokens: &[u32],
        adapters: &[Arc<AdapterSet>],
        cancel: Option<&AtomicBool>,
    ) -> Result<Rows, ModelError> {
        let (rows, sequences) = (layout.rows(), layout.sequences().len());
        let _span = tracing::debug_span!("step", rows, sequences).entered();
        let engine = &self.engine;
        let mut context =
            TransformContext::new(&engine.compute, layout, StepInput::Tokens(tokens), &mut self.pool);
        context.adapters = adapters;
        context.hooks = &self.hooks.layers;
        context.trace = self.hooks.trace.as_deref();
        context.cancelled = cancel;
        context.timed(Part::Step, |context| engine.model.execute(context))
    }

    /// Makes the rows of a step part of their sequence, if its logits are numbers.
    fn commit(
        &mut self,
        sequence: &mut Sequence,
        planned: &Planned,
        logits: &StepRows,
        rows: Range<usize>,
    ) -> Result<(), GenerateError> {
        let width = self.engine.vocabulary();
        if !rows.is_empty() {
            let values = logits.values()?;
            check_finite(
                own_rows(&values, &rows, width)?,
                width,
                sequence.held + planned.logits.start,
                self.engine.kv_type,
            )?;
        }
        self.pool.advance(sequence.id, planned.rows.len())?;
        sequence.held += planned.rows.len();
        self.counts.rows += planned.rows.len() as u64;
        self.leave_at_cut(sequence)?;
        if matches!(planned.step, InferenceStep::Prefill { .. }) {
            self.remember(sequence)?;
        }
        Ok(())
    }
}

/// The adapter sets of a step, each once.
struct StepSets(Vec<Arc<AdapterSet>>);

impl StepSets {
    fn of<'a>(sets: impl Iterator<Item = &'a Arc<AdapterSet>>) -> Self {
        let mut step = Self(Vec::new());
        for set in sets {
            if step.index(set).is_none() {
                step.0.push(Arc::clone(set));
            }
        }
        step
    }

    fn index(&self, set: &Arc<AdapterSet>) -> Option<usize> {
        self.0.iter().position(|known| Arc::ptr_eq(known, set))
    }
}

/// Nothing was begun: what was to be fed is forgotten.
fn cancelled(sequences: &mut [&mut Sequence]) -> Vec<StepPart> {
    let pending = sequences.iter_mut().enumerate().filter(|(_, sequence)| sequence.pending() > 0);
    let forget = |(index, sequence): (usize, &mut &mut Sequence)| {
        sequence.tokens.truncate(sequence.held);
        StepPart { index, result: Err(GenerateError::Cancelled) }
    };
    pending.map(forget).collect()
}

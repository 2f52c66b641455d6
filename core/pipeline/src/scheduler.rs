//! [`Scheduler`]: steps of one or several sequences over one pool of state.
//!
//! The only place that advances the pool, and the only place that decides about the rope regime. A step takes rows of
//! every sequence that has some, up to a budget: decoding sequences first, prompts in chunks with what is left. What
//! goes wrong with one sequence (no room, logits that are none) ends that one; the others do not notice.

mod prefix;

pub(crate) use prefix::SNAPSHOTS;

use crate::adapters::Adapted;
use crate::engine::{Engine, check_finite};
use crate::error::GenerateError;
use crate::sequence::{Sequence, Wanted};
use crate::step::{Step, StepLogits, StepPart, shared};
use menagerie_model::{
    AdapterSet, InferenceStep, LayerHook, ModelError, PoolOptions, Rows, SequenceLayout, SequenceRows,
    StatePool, StepInput, TransformContext,
};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// How much a [`Scheduler`] takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchedulerOptions {
    /// Most sequences at once.
    pub sequences: usize,
    /// Tokens of all sequences together; one alone may have as many as the engine's context.
    pub capacity_tokens: usize,
    /// Most rows of a step, of all sequences together.
    pub step_tokens: usize,
}

/// Runs sequences of an engine, several in one step.
pub struct Scheduler {
    engine: Arc<Engine>,
    hooks: Vec<Arc<dyn LayerHook>>,
    pool: StatePool,
    step_tokens: usize,
    /// Steps so far: who comes first where rows run out goes round.
    turn: usize,
}

/// Takes the logits `[T', V]` of each step of a sequence.
pub type OnStep<'a> = dyn FnMut(&Sequence, &[f32]) -> Result<(), GenerateError> + 'a;

/// The rows a sequence gets in a step.
struct Planned {
    index: usize,
    rows: Range<usize>,
    logits: Range<usize>,
    step: InferenceStep,
}

impl Scheduler {
    /// A scheduler with a pool of its own.
    ///
    /// # Errors
    /// The state cannot be allocated.
    pub fn new(
        engine: Arc<Engine>,
        hooks: Vec<Arc<dyn LayerHook>>,
        options: SchedulerOptions,
    ) -> Result<Self, GenerateError> {
        let SchedulerOptions { sequences, capacity_tokens, step_tokens } = options;
        let room = engine.pool_options(sequences, capacity_tokens);
        Self::with_pool(engine, hooks, room, step_tokens)
    }

    /// A scheduler whose pool is laid out as `room` says, apart from the rows of a step.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn with_pool(
        engine: Arc<Engine>,
        hooks: Vec<Arc<dyn LayerHook>>,
        room: PoolOptions,
        step_tokens: usize,
    ) -> Result<Self, GenerateError> {
        let pool = engine.pool(room.with_step_tokens(step_tokens))?;
        Ok(Self { engine, hooks, pool, step_tokens, turn: 0 })
    }

    /// A scheduler for one sequence of the engine's context, with chunks as the engine says.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn for_one(engine: Arc<Engine>, hooks: Vec<Arc<dyn LayerHook>>) -> Result<Self, GenerateError> {
        let (capacity_tokens, step_tokens) = (engine.context, engine.chunk);
        Self::new(engine, hooks, SchedulerOptions { sequences: 1, capacity_tokens, step_tokens })
    }

    /// The engine it runs.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// Bytes of state that hold tokens now.
    pub fn state_bytes(&self) -> usize {
        self.pool.bytes()
    }

    /// An empty sequence.
    ///
    /// # Errors
    /// The pool has no place for another.
    pub fn create(&mut self) -> Result<Sequence, GenerateError> {
        Ok(Sequence::new(self.pool.create()?, self.engine.adapters.clone()))
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
        self.go_back(sequence, 0)
    }

    /// Chooses the adapters that act on a sequence; where they are others than before, every token of it is forgotten,
    /// since its state was computed with those.
    ///
    /// # Errors
    /// The sequence is another scheduler's.
    pub fn adapt(&mut self, sequence: &mut Sequence, adapted: &Adapted) -> Result<(), GenerateError> {
        let adapters = match adapted {
            Adapted::AsOpened => self.engine.adapters.clone(),
            Adapted::Bare => None,
            Adapted::Set(set) => Some(Arc::clone(set)),
        };
        let same = match (&adapters, &sequence.adapters) {
            (None, None) => true,
            (Some(new), Some(old)) => Arc::ptr_eq(new, old) || new.is_same(old),
            _ => false,
        };
        if !same {
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
        let fresh = whole || wanted != Wanted::Last || regime != sequence.regime;
        let kept = if fresh { 0 } else { sequence.common_prefix(prompt) };
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
        let width = self.engine.vocabulary();
        if cancel.is_some_and(|flag| flag.load(Ordering::Relaxed)) {
            return Step { logits: StepLogits::None, width, parts: cancelled(sequences) };
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
                return Step { logits: StepLogits::None, width, parts };
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
        Step { logits, width, parts }
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
            on_step(sequence, &values[rows.start * step.width..rows.end * step.width])?;
        }
        Ok(())
    }

    /// Shares the rows of a step out, and makes room for them; sequences for which there is none have failed.
    fn plan(&mut self, sequences: &mut [&mut Sequence]) -> (Vec<Planned>, Vec<StepPart>) {
        let rows = self.share_out(sequences);
        self.turn = self.turn.wrapping_add(1);
        let (mut plan, mut failed, mut next) = (Vec::new(), Vec::new(), 0);
        for (index, rows) in rows.into_iter().enumerate().filter(|(_, rows)| *rows > 0) {
            let sequence = &mut *sequences[index];
            if let Err(error) = self.pool.reserve(sequence.id, sequence.held, rows) {
                // Without its state the others have room to go on.
                let error = self.reset(sequence).err().unwrap_or(error.into());
                failed.push(StepPart { index, result: Err(error) });
                continue;
            }
            let (step, logits) = sequence.next_step(rows);
            plan.push(Planned { index, rows: next..next + rows, logits, step });
            next += rows;
        }
        (plan, failed)
    }

    /// Rows of each sequence: one of those that decode, then chunks of prompts, as long as the budget lasts. A prompt's last
    /// chunk is left more than one row: a single one is computed by other kernels, and its logits would depend on where
    /// the prompt was cut.
    fn share_out(&self, sequences: &[&mut Sequence]) -> Vec<usize> {
        let count = sequences.len();
        let order = || (0..count).map(|index| (index + self.turn) % count);
        let whole = self.engine.takes_whole_prompts();
        let (mut rows, mut left) = (vec![0; count], self.step_tokens);
        for index in order().filter(|&index| sequences[index].pending() == 1) {
            rows[index] = left.min(1);
            left -= rows[index];
        }
        for index in order() {
            let pending = sequences[index].pending();
            if rows[index] == 0 && !(whole && pending > left) {
                let chunk = pending.min(left);
                rows[index] = if pending - chunk == 1 && chunk > 2 { chunk - 1 } else { chunk };
                left -= rows[index];
            }
        }
        rows
    }

    /// The forward itself. Appends to the states; lengths stay.
    fn run(
        &mut self,
        plan: &[Planned],
        sequences: &[&mut Sequence],
        cancel: Option<&AtomicBool>,
    ) -> Result<StepLogits, GenerateError> {
        if plan.is_empty() {
            return Ok(StepLogits::None);
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
        Ok(StepLogits::new(result?, &self.engine.compute)?)
    }

    fn forward(
        &mut self,
        layout: &SequenceLayout,
        tokens: &[u32],
        adapters: &[Arc<AdapterSet>],
        cancel: Option<&AtomicBool>,
    ) -> Result<Rows, ModelError> {
        let engine = &self.engine;
        let mut context =
            TransformContext::new(&engine.compute, layout, StepInput::Tokens(tokens), &mut self.pool);
        context.adapters = adapters;
        context.hooks = &self.hooks;
        context.cancelled = cancel;
        engine.model.execute(&mut context)
    }

    /// Makes the rows of a step part of their sequence, if its logits are numbers.
    fn commit(
        &mut self,
        sequence: &mut Sequence,
        planned: &Planned,
        logits: &StepLogits,
        rows: Range<usize>,
    ) -> Result<(), GenerateError> {
        let width = self.engine.vocabulary();
        if !rows.is_empty() {
            let values = logits.values()?;
            let wrong = || ModelError::Shape {
                what: "logits of a step".to_owned(),
                expected: format!("at least {} rows of {width}", rows.end),
                found: format!("{} values", values.len()),
            };
            let own = values.get(rows.start * width..rows.end * width).ok_or_else(wrong)?;
            check_finite(own, width, sequence.held + planned.logits.start, self.engine.kv_type)?;
        }
        self.pool.advance(sequence.id, planned.rows.len())?;
        sequence.held += planned.rows.len();
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

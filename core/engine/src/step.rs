//! The step: all that happens between one token of a sequence and the next, alone or among others.
//!
//! ```text
//! Queue::step       end what is cancelled, admit what waits
//!   Scheduler::step   plan -> layers -> commit
//!   Queue::pick       sample, of several sequences side by side
//!   Queue::answer     sample -> stop, or feed the token back
//! ```

use crate::batch::{Ended, Queue, Ticket};
use crate::error::GenerateError;
use crate::hooks::StepReport;
use crate::output::{Step, StepOutput, StepPart, StepRows};
use crate::request::{Event, EventResponse};
use crate::scheduler::Scheduler;
use crate::sequence::Sequence;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

impl Queue<'_> {
    /// Begins what can begin, and computes one step of what runs; `sink` is told what happens to which task, and may return
    /// [`ControlFlow::Break`](std::ops::ControlFlow) to end that one, of which it then hears no more. Gives those that ended.
    /// What goes wrong with one task is its result, and the others go on; cancellation is an outcome.
    pub fn step<R: EventResponse>(&mut self, mut sink: impl FnMut(Ticket, Event) -> R) -> Vec<Ended> {
        let mut stopped = std::mem::take(&mut self.stopped);
        for part in [Self::begin_step, Self::compute_step] {
            part(self, &mut |ticket, event| {
                if !stopped.contains(&ticket.0) && sink(ticket, event).flow().is_break() {
                    stopped.insert(ticket.0);
                }
            });
            self.cancelled.extend(&stopped);
        }
        let ended = self.take_ended();
        for (ticket, _) in &ended {
            stopped.remove(&ticket.0);
        }
        self.stopped = stopped;
        ended
    }

    /// What comes before the computation: ends what is cancelled, begins what can begin, and gives the first token of prompts
    /// whose logits are held.
    pub(crate) fn begin_step(&mut self, sink: &mut dyn FnMut(Ticket, Event)) {
        self.steps += 1;
        self.end_cancelled(sink);
        self.admit();
        while let Some(step) = self.known() {
            self.answer(step, sink);
        }
    }

    /// The computation, of what was not stopped meanwhile.
    pub(crate) fn compute_step(&mut self, sink: &mut dyn FnMut(Ticket, Event)) {
        if !self.cancelled.is_empty() {
            self.end_cancelled(sink);
        }
        if let Some(step) = self.compute() {
            self.pick(&step);
            self.answer(step, sink);
        }
    }

    /// The tasks that ended since the last call.
    pub(crate) fn take_ended(&mut self) -> Vec<Ended> {
        std::mem::take(&mut self.ended)
    }
}

impl Scheduler {
    /// One forward over pending tokens of these sequences, of each once.
    ///
    /// A sequence that fails is in the result with its error, and holds what it held before, or nothing if there was no room
    /// for its rows. An error of the step itself is that of every sequence in it. Sequences for which the budget had no rows
    /// left are not in the result.
    pub fn step(&mut self, sequences: &mut [&mut Sequence], cancel: Option<&AtomicBool>) -> Step {
        if cancel.is_some_and(|flag| flag.load(Ordering::Relaxed)) {
            return cancelled(sequences);
        }
        let began = (!self.hooks.lifecycles.is_empty()).then(Instant::now);
        let (plan, failed) = self.plan(sequences);
        let made = self.layers(&plan, sequences, cancel);
        let step = self.commit(plan, sequences, made).after(failed);
        if let Some(began) = began {
            let ((pages_used, pages_free), state_bytes) = (self.pool.pages(), self.state_bytes());
            let time = began.elapsed();
            self.hooks.stepped(&StepReport { state_bytes, pages_used, pages_free, time });
            self.tell_counts();
        }
        step
    }

    /// Steps one sequence until it has no pending tokens; `on_step` is given what each step gave.
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
            let step = self.step(&mut [&mut *sequence], cancel);
            step.only(|output| on_step(sequence, output))?;
        }
        Ok(())
    }
}

/// Takes what each step of a sequence gave.
pub type OnStep<'a> = dyn FnMut(&Sequence, StepOutput) -> Result<(), GenerateError> + 'a;

/// Nothing was begun: what was to be fed is forgotten.
fn cancelled(sequences: &mut [&mut Sequence]) -> Step {
    let pending = sequences.iter_mut().enumerate().filter(|(_, sequence)| sequence.to_compute() > 0);
    let forget = |(index, sequence): (usize, &mut &mut Sequence)| {
        sequence.tokens.truncate(sequence.reached());
        StepPart { index, result: Err(GenerateError::Cancelled) }
    };
    Step::new(StepRows::none(), pending.map(forget).collect())
}

//! The step: everything that happens between one token of a sequence and the next, for one sequence or for several.
//!
//! ```text
//! Events::next (one sequence)         Queue::step (many requests)
//!   |                                   Queue::end_cancelled, Queue::admit
//!   |                                   |
//!   +-- Generation::propose: guesses of the next tokens
//!   +-- Scheduler::step: plan -> forward -> commit
//!   |                                   Queue::sample: the next tokens, in parallel
//!   |                                   |
//!   +-- Generation::advance: sample -> stop, or feed the token back (again for each guess that was right)
//! ```

use crate::error::GenerateError;
use crate::hooks::RequestId;
use crate::output::{SequenceResult, StepOutput, StepResults, StepRows};
use crate::queue::{Completion, Queue};
use crate::request::{Event, EventResponse};
use crate::scheduler::Scheduler;
use crate::sequence::Sequence;
use std::sync::atomic::{AtomicBool, Ordering};

impl Queue {
    /// Starts waiting requests and computes one step of the running ones. Returns the requests that ended.
    ///
    /// `sink` receives the events of every request. If it returns [`ControlFlow::Break`](std::ops::ControlFlow), that
    /// request ends, and `sink` receives no more of its events. An error fails only its own request; cancellation is an
    /// outcome.
    pub fn step<R: EventResponse>(&mut self, mut sink: impl FnMut(RequestId, Event) -> R) -> Vec<Completion> {
        let mut stopped = std::mem::take(&mut self.stopped);
        let mut filtered = |id: RequestId, event: Event| {
            if !stopped.contains(&id) && sink(id, event).flow().is_break() {
                stopped.insert(id);
            }
            !stopped.contains(&id)
        };
        self.steps += 1;
        self.end_cancelled(&mut filtered);
        self.admit();
        let mut left = self.compute();
        if left.is_some() {
            let mut ended = Vec::new();
            while let Some(step) = left {
                self.sample(&step);
                left = self.advance(step, &mut ended, &mut filtered);
            }
            self.end_all(ended, &mut filtered);
            // Those that were cancelled during the step end with it.
            self.end_cancelled(&mut filtered);
        }
        self.cancelled.extend(&stopped);
        let completed = std::mem::take(&mut self.completed);
        for (id, _) in &completed {
            stopped.remove(id);
        }
        self.stopped = stopped;
        completed
    }
}

impl Scheduler {
    /// One forward pass over the pending tokens of these sequences.
    ///
    /// A sequence that fails is in the result with its error. It keeps the tokens that it held before, unless there was
    /// no memory for its rows: then it is empty. An error of the whole step is reported for every sequence in it. A
    /// sequence for which the step had no rows left is not in the result, and neither is an answer whose state was lost with
    /// a stage and is computed again.
    pub fn step(&mut self, sequences: &mut [&mut Sequence], cancel: Option<&AtomicBool>) -> StepResults {
        if cancel.is_some_and(|flag| flag.load(Ordering::Relaxed)) {
            return cancelled(sequences);
        }
        let flags = vec![cancel; sequences.len()];
        self.step_for_each(sequences, &flags)
    }

    /// [`Self::step`] with a flag for each of the sequences, which may have none. The step ends early once the flags of
    /// all sequences that have rows in it are set.
    pub(crate) fn step_for_each(
        &mut self,
        sequences: &mut [&mut Sequence],
        cancel: &[Option<&AtomicBool>],
    ) -> StepResults {
        let members: Vec<usize> = (0..sequences.len()).filter(|&index| !sequences[index].in_flight).collect();
        let step = self.begin_step(sequences, &members, cancel);
        self.finish_step(step, sequences, cancel)
    }

    /// Runs steps of one sequence until it has no pending tokens; `on_step` receives the output of each step.
    ///
    /// # Errors
    /// The error of a step or of `on_step`. The chunks before it stay computed.
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

/// Receives the output of each step of a sequence.
type OnStep<'a> = dyn FnMut(&Sequence, StepOutput) -> Result<(), GenerateError> + 'a;

/// The results of a step that was cancelled before it started: the pending tokens are dropped.
fn cancelled(sequences: &mut [&mut Sequence]) -> StepResults {
    let pending = sequences.iter_mut().enumerate().filter(|(_, sequence)| sequence.uncomputed() > 0);
    let forget = |(index, sequence): (usize, &mut &mut Sequence)| {
        sequence.tokens.truncate(sequence.reached());
        sequence.draft.clear();
        sequence.draft.again = 0;
        SequenceResult { index, rows: Err(GenerateError::Cancelled) }
    };
    StepResults::new(StepRows::none(), pending.map(forget).collect())
}

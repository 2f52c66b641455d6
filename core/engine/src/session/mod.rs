//! [`Session`]: a sequence that generates text; several share one model.

mod events;

pub use events::Events;
pub(crate) use events::listen;

use crate::batch::{Batch, Job};
use crate::capability::Tokenizing;
use crate::engine::Engine;
use crate::error::GenerateError;
use crate::prompt::Prompt;
use crate::request::{Event, EventResponse, Outcome, Request};
use crate::scheduler::Scheduler;
use crate::sequence::Sequence;
use std::sync::Arc;

/// A sequence that generates text: a [`Batch`] of one, with state of its own.
pub struct Session {
    batch: Batch,
    sequence: Sequence,
}

impl Session {
    /// A session with state for one sequence of `scheduler`; without a tokenizer it deals in token ids only.
    ///
    /// # Errors
    /// The scheduler has no place for a sequence.
    pub fn new(
        mut scheduler: Scheduler,
        tokenizer: Option<Arc<dyn Tokenizing>>,
    ) -> Result<Self, GenerateError> {
        let sequence = scheduler.create()?;
        Ok(Self { batch: Batch::new(scheduler, tokenizer), sequence })
    }

    /// Its sequence.
    pub fn sequence(&self) -> &Sequence {
        &self.sequence
    }

    /// The scheduler and the sequence.
    pub(crate) fn parts_mut(&mut self) -> (&mut Scheduler, &mut Sequence) {
        (self.batch.scheduler_mut(), &mut self.sequence)
    }

    /// The engine below.
    pub fn engine(&self) -> &Arc<Engine> {
        self.batch.engine()
    }

    /// Continues `prompt` (text, tokens or a rendered conversation), keeping the part of it that is cached from earlier calls.
    /// `sink` hears what happens. It returns nothing, or [`ControlFlow::Break`](std::ops::ControlFlow) to stop: the outcome
    /// then has the tokens so far and says [`crate::StopReason::Cancelled`].
    ///
    /// # Errors
    /// A prompt or options that cannot be used, or what the model returns. Cancellation is an outcome, not an error.
    pub fn generate<'p, R: EventResponse>(
        &mut self,
        prompt: impl Into<Prompt<'p>>,
        request: &Request,
        sink: impl FnMut(Event) -> R,
    ) -> Result<Outcome, GenerateError> {
        let mut events = self.events(prompt.into(), request);
        listen(&mut events, sink)?;
        events.into_outcome()
    }

    /// [`Self::generate`] as an iterator; dropping it cancels. What cannot be used of prompt or request is its first item.
    pub fn events<'s>(&'s mut self, prompt: impl Into<Prompt<'s>>, request: &'s Request) -> Events<'s> {
        let Self { batch, sequence } = self;
        Events::new(batch.queue(), Job::new(sequence, prompt, request))
    }
}

//! [`Session`]: a sequence that keeps its state from one request to the next.

mod events;

pub use events::Events;
pub(crate) use events::listen;

use crate::capability::Tokenizing;
use crate::engine::Engine;
use crate::error::GenerateError;
use crate::generation::GenerationFactory;
use crate::prompt::Prompt;
use crate::request::{Event, EventResponse, Outcome, Request};
use crate::scheduler::Scheduler;
use crate::sequence::Sequence;
use std::sync::Arc;

/// A sequence that generates text, request after request, and keeps its state in between: a new prompt computes only
/// what follows the prefix that it shares with the tokens so far. Several sessions share one model without a lock. To
/// run many requests together, use a [`crate::Queue`].
pub struct Session {
    scheduler: Scheduler,
    sequence: Sequence,
    factory: GenerationFactory,
}

impl Session {
    /// A session with one sequence of `scheduler`. Without a tokenizer, prompts and answers are token ids only.
    ///
    /// # Errors
    /// The scheduler has no place for a sequence.
    pub fn new(
        mut scheduler: Scheduler,
        tokenizer: Option<Arc<dyn Tokenizing>>,
    ) -> Result<Self, GenerateError> {
        let sequence = scheduler.create()?;
        Ok(Self { scheduler, sequence, factory: GenerationFactory::new(tokenizer) })
    }

    /// Its sequence.
    pub fn sequence(&self) -> &Sequence {
        &self.sequence
    }

    /// The scheduler and the sequence.
    pub(crate) fn parts_mut(&mut self) -> (&mut Scheduler, &mut Sequence) {
        (&mut self.scheduler, &mut self.sequence)
    }

    /// Its engine.
    pub fn engine(&self) -> &Arc<Engine> {
        self.scheduler.engine()
    }

    /// Continues `prompt` (text, tokens or a rendered conversation). The part that the sequence already holds is not
    /// computed again. `sink` receives the events and returns nothing, or
    /// [`ControlFlow::Break`](std::ops::ControlFlow) to stop: the outcome then has the tokens so far and the reason
    /// [`crate::StopReason::Cancelled`].
    ///
    /// # Errors
    /// The prompt or an option is invalid, or the model fails. Cancellation is an outcome, not an error.
    pub fn generate<'p, R: EventResponse>(
        &mut self,
        prompt: impl Into<Prompt<'p>>,
        request: &Request,
        sink: impl FnMut(Event) -> R,
    ) -> Result<Outcome, GenerateError> {
        let mut events = self.events(prompt, request);
        listen(&mut events, sink)?;
        events.into_outcome()
    }

    /// [`Self::generate`] as an iterator; dropping it cancels. If the prompt or an option is invalid, the error is its
    /// first item.
    pub fn events<'p>(&mut self, prompt: impl Into<Prompt<'p>>, request: &Request) -> Events<'_> {
        Events::new(self, prompt.into(), request)
    }
}

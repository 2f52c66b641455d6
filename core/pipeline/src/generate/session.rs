//! [`Session`]: a sequence that generates text; several share one model.

use crate::batch::{Batch, Job};
use crate::capability::Tokenizing;
use crate::engine::Engine;
use crate::error::GenerateError;
use crate::generate::{Event, Outcome, RenderedPrompt, Request};
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

    /// Continues `prompt`, keeping the part of it that is cached from earlier calls.
    ///
    /// # Errors
    /// A prompt or options that cannot be used, or what the model returns. Cancellation is an outcome, not an error.
    pub fn generate(
        &mut self,
        prompt: &[u32],
        request: &Request,
        sink: &mut dyn FnMut(Event),
    ) -> Result<Outcome, GenerateError> {
        only(&mut self.batch, Job::tokens(&mut self.sequence, prompt, request), sink)
    }

    /// Continues a rendered conversation; reasoning is told apart from the answer.
    ///
    /// # Errors
    /// As [`Self::generate`].
    pub fn generate_chat(
        &mut self,
        prompt: &RenderedPrompt,
        request: &Request,
        sink: &mut dyn FnMut(Event),
    ) -> Result<Outcome, GenerateError> {
        only(&mut self.batch, Job::chat(&mut self.sequence, prompt, request), sink)
    }
}

fn only(batch: &mut Batch, job: Job, sink: &mut dyn FnMut(Event)) -> Result<Outcome, GenerateError> {
    let mut results = batch.generate(vec![job], &mut |_, event| sink(event));
    results.pop().unwrap_or(Err(GenerateError::Cancelled))
}

//! [`Batch`]: generations of one or several sequences, stepped together.

mod breakers;
mod picking;
mod queue;
mod run;
mod task;

pub use queue::{Ended, Queue, Ticket};
pub(crate) use run::{Held, Run};
pub use task::Task;
pub(crate) use task::TokenTask;

use crate::batch::breakers::KnownBreakers;
use crate::capability::Tokenizing;
use crate::engine::Engine;
use crate::error::GenerateError;
use crate::prompt::Prompt;
use crate::request::{Event, EventResponse, Outcome, Request};
use crate::scheduler::Scheduler;
use crate::sequence::Sequence;
use std::sync::Arc;

/// Generates text with sequences of one scheduler, several in one step.
pub struct Batch {
    scheduler: Scheduler,
    tokenizer: Option<Arc<dyn Tokenizing>>,
    breakers: KnownBreakers,
}

/// What one sequence of a batch is to do.
pub struct Job<'a> {
    pub(crate) sequence: &'a mut Sequence,
    pub(crate) prompt: Prompt<'a>,
    pub(crate) request: &'a Request,
}

impl<'a> Job<'a> {
    /// Continues `prompt`: text, tokens or a rendered conversation.
    pub fn new(sequence: &'a mut Sequence, prompt: impl Into<Prompt<'a>>, request: &'a Request) -> Self {
        Self { sequence, prompt: prompt.into(), request }
    }
}

impl Batch {
    /// Generations on `scheduler`; without a tokenizer they deal in token ids only.
    pub fn new(scheduler: Scheduler, tokenizer: Option<Arc<dyn Tokenizing>>) -> Self {
        Self { scheduler, tokenizer, breakers: KnownBreakers::default() }
    }

    /// The engine below.
    pub fn engine(&self) -> &Arc<Engine> {
        self.scheduler.engine()
    }

    /// The scheduler below.
    pub fn scheduler(&self) -> &Scheduler {
        &self.scheduler
    }

    /// The scheduler below: to create and free sequences, and to run single steps.
    pub fn scheduler_mut(&mut self) -> &mut Scheduler {
        &mut self.scheduler
    }

    /// A queue of generations that come and go; what one queue leaves behind, the next one finds.
    pub fn queue(&mut self) -> Queue<'_> {
        Queue::new(&mut self.scheduler, self.tokenizer.as_deref(), &mut self.breakers)
    }

    /// Runs all jobs to their end, in steps that they share; `sink` is told what happens to which job, and may return
    /// [`ControlFlow::Break`](std::ops::ControlFlow) to stop that one. What goes wrong with one job is its result, and the
    /// others go on. A part of each prompt that its sequence holds from before is kept.
    ///
    /// Cancellation is an outcome. It is looked at between steps, and between layers where all jobs have one flag.
    pub fn generate<R: EventResponse>(
        &mut self,
        jobs: Vec<Job>,
        mut sink: impl FnMut(usize, Event) -> R,
    ) -> Vec<Result<Outcome, GenerateError>> {
        // Not reached as it is: every job has an end.
        let mut results: Vec<_> = jobs.iter().map(|_| Err(GenerateError::Cancelled)).collect();
        let mut queue = self.queue();
        // Tickets are given in order, from 0.
        for job in jobs {
            queue.lend(job);
        }
        while !queue.is_idle() {
            for (ticket, result) in queue.step(|ticket, event| sink(ticket.0, event)) {
                results[ticket.0] = result;
            }
        }
        results
    }
}

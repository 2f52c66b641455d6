//! [`Queue`]: requests that run together.

mod admission;
mod overlap;
mod parallel_sampling;
mod waiting_list;

use crate::capability::Tokenizing;
use crate::error::GenerateError;
use crate::generation::{Generation, GenerationFactory};
use crate::hooks::{RequestArrival, RequestId, RequestKind};
use crate::output::StepResults;
use crate::prompt::Prompt;
use crate::request::{Event, EventResponse, Outcome, Request};
use crate::scheduler::Scheduler;
use crate::sequence::Sequence;
use crate::stopping::StopReason;
use admission::WaitingRequest;
use overlap::OverlappedSteps;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;
use waiting_list::WaitingList;

/// The id of a request and its result.
pub type Completion = (RequestId, Result<Outcome, GenerateError>);

/// Runs many requests together. A request waits until there is a place and memory for it, shares its steps with the
/// other running requests, and leaves the queue when it ends.
///
/// **Order.** Requests start by priority, then in the order of submission. Every 16 steps of waiting raise the priority
/// by one, so no request waits forever. If requests have [tenants](Request::tenant), the tenants take turns: of the
/// tenants with waiting requests of the highest priority, the one with the fewest running requests is next, and 16
/// steps in which none of its requests run raise the priority of a tenant by one. A request whose prompt starts like
/// one that is being computed waits until that prefix is computed, and shares it.
///
/// **Latency.** A step has at most [`SchedulerOptions::step_tokens`](crate::SchedulerOptions::step_tokens) rows, and
/// sequences that decode come first. However long other prompts are, at most one such step lies between two tokens of
/// an answer. [`SchedulerOptions::step_time`](crate::SchedulerOptions::step_time) bounds its time.
///
/// **Cancellation.** A running request whose [flag](Request::cancel) is set ends with the step that is being computed,
/// without a token of that step; the step itself ends at the next layer if the requests of all its rows are cancelled.
/// A waiting request ends with the step, too.
///
/// A request of a queue gets a new sequence, whose state other requests may reuse after it ends. A
/// [`Session`](crate::Session) is not a queue of one request: its sequence belongs to it from one request to the next,
/// so a conversation keeps its state whatever else runs.
pub struct Queue {
    pub(crate) waiting: WaitingList,
    pub(crate) running: Vec<RunningRequest>,
    /// Requests that ended since the last step returned.
    pub(crate) completed: Vec<Completion>,
    pub(crate) cancelled: BTreeSet<RequestId>,
    /// Requests that the callback of events stopped. They end in the next step, and the callback receives no more of
    /// their events.
    pub(crate) stopped: BTreeSet<RequestId>,
    /// Steps so far.
    pub(crate) steps: usize,
    overlapped: OverlappedSteps,
    factory: GenerationFactory,
    pub(crate) scheduler: Scheduler,
}

/// The index of a running request, and how it ended.
pub(crate) type EndedRequest = (usize, Result<StopReason, GenerateError>);

/// Receives the events of requests, and returns whether it still listens to the request.
pub(crate) type EventSink<'s> = &'s mut dyn FnMut(RequestId, Event) -> bool;

/// A request that computes its prompt or its answer.
pub(crate) struct RunningRequest {
    pub(crate) id: RequestId,
    pub(crate) tenant: u64,
    pub(crate) generation: Box<Generation>,
    pub(crate) sequence: Sequence,
    /// The number of the last step that it was to be in.
    pub(crate) begun: u64,
}

impl Queue {
    /// An empty queue on `scheduler`. Without a tokenizer, prompts and answers are token ids only.
    pub fn new(scheduler: Scheduler, tokenizer: Option<Arc<dyn Tokenizing>>) -> Self {
        Self {
            waiting: WaitingList::default(),
            running: Vec::new(),
            completed: Vec::new(),
            cancelled: BTreeSet::new(),
            stopped: BTreeSet::new(),
            steps: 0,
            overlapped: OverlappedSteps::default(),
            factory: GenerationFactory::new(tokenizer),
            scheduler,
        }
    }

    /// Adds a request that continues `prompt` (text, tokens or a rendered conversation). It starts in one of the next
    /// steps. If the prompt cannot be encoded, the next step returns the error.
    pub fn submit<'p>(&mut self, prompt: impl Into<Prompt<'p>>, request: &Request) -> RequestId {
        let arrival = RequestArrival::new(&self.scheduler.hooks().lifecycles, RequestKind::Text);
        let id = arrival.id();
        match prompt.into().encoded(self.factory.tokenizer()) {
            Ok((prompt, parser)) => {
                let (prompt, request) = (prompt.into_owned(), request.clone());
                self.waiting.push(WaitingRequest::new(arrival, prompt, request, parser, self.steps));
            }
            Err(error) => self.refuse(arrival, error),
        }
        id
    }

    /// Runs steps until every request has ended. Returns the results in the order of submission; `sink` is as in
    /// [`Self::step`].
    pub fn run<R: EventResponse>(&mut self, mut sink: impl FnMut(RequestId, Event) -> R) -> Vec<Completion> {
        let mut completed = Vec::new();
        while !self.is_idle() {
            completed.extend(self.step(&mut sink));
        }
        completed.sort_by_key(|(id, _)| *id);
        completed
    }

    /// Cancels a request: it ends in the next step, with what it has generated so far. One that waits leaves the queue
    /// at once; the next step returns its error. Has no effect after its end.
    pub fn cancel(&mut self, id: RequestId) {
        if self.running.iter().any(|one| one.id == id) {
            self.cancelled.insert(id);
        } else {
            self.end_waiting(|one| one.id() == id);
        }
    }

    /// Whether every request has ended and its result has been returned.
    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.running.is_empty() && self.completed.is_empty()
    }

    /// The number of requests that have not started.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// The number of requests that have started and not ended.
    pub fn running(&self) -> usize {
        self.running.len()
    }

    /// Its scheduler.
    pub fn scheduler(&self) -> &Scheduler {
        &self.scheduler
    }

    /// Its scheduler, to drop cached prefixes or to run single steps.
    pub fn scheduler_mut(&mut self) -> &mut Scheduler {
        &mut self.scheduler
    }

    /// Ends a request that has not started.
    fn refuse(&mut self, arrival: RequestArrival, error: GenerateError) {
        let id = arrival.id();
        arrival.refused(&error);
        self.completed.push((id, Err(error)));
    }

    /// Passes the results of a step to the requests: one row each. Adds those that are complete to `ended`. Returns the
    /// rows that are left of requests whose guesses were right. `sink` returns whether it still listens to the request.
    pub(crate) fn advance(
        &mut self,
        step: StepResults,
        ended: &mut Vec<EndedRequest>,
        sink: EventSink,
    ) -> Option<StepResults> {
        let Self { running, scheduler, cancelled, .. } = self;
        step.turn(&mut |index, output| {
            let RunningRequest { id, generation, sequence, .. } = &mut running[index];
            if generation.is_cancelled() || cancelled.contains(id) {
                ended.push((index, Ok(StopReason::Cancelled)));
                return false;
            }
            let mut listens = true;
            let sink = &mut |event| listens &= sink(*id, event);
            match output.and_then(|output| generation.advance(scheduler, sequence, output, sink)) {
                Ok(None) => return listens && sequence.has_next_row(),
                Ok(Some(reason)) => ended.push((index, Ok(reason))),
                Err(error) => ended.push((index, Err(error))),
            }
            false
        })
    }

    /// Ends the requests that are complete after a step.
    pub(crate) fn end_all(&mut self, mut ended: Vec<EndedRequest>, sink: EventSink) {
        ended.sort_by_key(|(index, _)| Reverse(*index));
        ended.into_iter().for_each(|(index, ending)| self.end(index, ending, sink));
    }

    /// Ends a running request. Its sequence is kept for requests with the same prefix, unless the request failed or was
    /// cancelled.
    fn end(&mut self, index: usize, ending: Result<StopReason, GenerateError>, sink: EventSink) {
        let RunningRequest { id, tenant, mut generation, mut sequence, .. } = self.running.remove(index);
        self.waiting.served(tenant, self.steps);
        self.cancelled.remove(&id);
        let ending = ending.and_then(|reason| self.scheduler.settle(&mut sequence).map(|()| reason));
        let result = generation.finish(ending, &mut sequence, &mut |event| {
            sink(id, event);
        });
        let is_useful = result.as_ref().is_ok_and(|outcome| outcome.reason != StopReason::Cancelled);
        let released = match is_useful {
            true => self.scheduler.retire(sequence),
            false => self.scheduler.free(sequence),
        };
        let result = result.and_then(|outcome| released.map(|()| outcome));
        generation.report(&result);
        self.completed.push((id, result));
    }

    /// Ends the requests that were cancelled. One whose step is in flight ends with that step.
    pub(crate) fn end_cancelled(&mut self, sink: EventSink) {
        for index in (0..self.running.len()).rev() {
            let RunningRequest { id, generation, sequence, .. } = &self.running[index];
            if sequence.in_flight {
                continue;
            }
            if generation.is_cancelled() || self.cancelled.contains(id) {
                self.end(index, Ok(StopReason::Cancelled), sink);
            }
        }
        let in_flight =
            |id: &RequestId| self.running.iter().any(|one| one.id == *id && one.sequence.in_flight);
        self.cancelled.retain(in_flight);
        self.end_waiting(WaitingRequest::is_cancelled);
    }

    /// Ends the waiting requests for which `is_cancelled` returns true; they have no outcome.
    fn end_waiting(&mut self, is_cancelled: impl Fn(&WaitingRequest) -> bool) {
        for request in self.waiting.remove_all(is_cancelled) {
            self.refuse(request.into_arrival(), GenerateError::Cancelled);
        }
    }
}

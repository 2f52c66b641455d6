//! When a waiting request starts, and with which state.

use super::waiting_list::WaitingCursor;
use super::{Queue, RunningRequest};
use crate::error::GenerateError;
use crate::generation::Generation;
use crate::hooks::{RequestArrival, RequestId};
use crate::prefill::shared_prefix_len;
use crate::request::Request;
use crate::scheduler::{MIN_SHARED_TOKENS, PrefixQuery, PrefixSource, Scheduler};
use crate::sequence::Sequence;
use menagerie_answers::AnswerParser;
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// The number of waiting requests that are compared with a starting one to find shared prefixes; those of its tenant
/// come first.
const COMPARED_REQUESTS: usize = 64;

/// The fewest rows between the computed prefix and a chunk boundary that no waiting request needs. A boundary costs a
/// smaller step and a copy of the states, about as much as twenty rows each.
const MIN_BOUNDARY_DISTANCE: usize = 64;

/// The most chunk boundaries that waiting requests cause in one prompt; each makes a step smaller.
const MAX_BOUNDARIES: usize = 4;

/// A request that has not started.
pub(crate) struct WaitingRequest {
    arrival: RequestArrival,
    prompt: Vec<u32>,
    request: Request,
    parser: AnswerParser,
    /// Steps of the queue when it was submitted.
    arrival_step: usize,
    arrival_time: Instant,
}

/// Whether a waiting request can start.
enum Admission {
    /// It starts with the state of this source.
    Start(PrefixSource),
    /// A running request is computing a prefix of its prompt; later requests may start meanwhile.
    WaitForPrefix,
    /// There is not enough memory for it; no later request may start before it.
    WaitForMemory,
}

impl WaitingRequest {
    pub(super) fn new(
        arrival: RequestArrival,
        prompt: Vec<u32>,
        request: Request,
        parser: AnswerParser,
        arrival_step: usize,
    ) -> Self {
        Self { arrival, prompt, request, parser, arrival_step, arrival_time: Instant::now() }
    }

    pub(super) fn id(&self) -> RequestId {
        self.arrival.id()
    }

    pub(super) fn is_cancelled(&self) -> bool {
        self.request.cancel.as_ref().is_some_and(|flag| flag.load(Ordering::Relaxed))
    }

    pub(super) fn tenant(&self) -> u64 {
        self.request.tenant
    }

    pub(super) fn priority(&self) -> i32 {
        self.request.priority
    }

    /// The step of the queue in which it was submitted.
    pub(super) fn arrival_step(&self) -> usize {
        self.arrival_step
    }

    pub(super) fn into_arrival(self) -> RequestArrival {
        self.arrival
    }

    /// The sequences whose state it can start with. The rows that predict tokens which it reports are computed, and those
    /// that its lens reads.
    fn prefix_query(&self, scheduler: &Scheduler) -> PrefixQuery<'_> {
        let query = scheduler.prefix_query(&self.prompt, &self.request);
        let scored = self.request.prompt_logprobs.unwrap_or(usize::MAX);
        let lens = self.request.lens.as_ref().map_or(usize::MAX, |lens| lens.first_position() + 1);
        query.within(scored.min(lens))
    }
}

impl Queue {
    /// Starts the requests for which there are a place and memory.
    pub(crate) fn admit(&mut self) {
        let mut cursor = WaitingCursor::default();
        while self.running.len() < self.scheduler.sequences() {
            let Self { waiting, running, scheduler, steps, .. } = self;
            let of_tenant = |tenant| running.iter().filter(|one| one.tenant == tenant).count();
            let Some((place, request)) = waiting.next(&cursor, *steps, of_tenant) else { break };
            let tenant = request.tenant();
            match admission(request, running, scheduler) {
                Ok(Admission::WaitForMemory) => break,
                Ok(Admission::WaitForPrefix) => cursor.pass(tenant, place),
                Ok(Admission::Start(source)) => {
                    let Some(request) = waiting.remove(tenant, place) else { break };
                    waiting.served(tenant, *steps);
                    self.start(request, source);
                }
                Err(error) => {
                    let Some(request) = waiting.remove(tenant, place) else { break };
                    self.refuse(request.into_arrival(), error);
                }
            }
        }
    }

    /// Moves a request to the running ones, or ends it with the error that prevents its start.
    fn start(&mut self, request: WaitingRequest, source: PrefixSource) {
        let WaitingRequest { arrival, prompt, request, parser, arrival_time, .. } = request;
        let begun = self.begin(&prompt, &request, parser, source);
        match begun {
            Ok((mut generation, sequence)) => {
                let id = arrival.id();
                generation.begin(arrival, &sequence, arrival_time.elapsed());
                self.running.push(RunningRequest {
                    id,
                    tenant: request.tenant,
                    generation,
                    sequence,
                    begun: 0,
                });
            }
            Err(error) => self.refuse(arrival, error),
        }
    }

    fn begin(
        &mut self,
        prompt: &[u32],
        request: &Request,
        parser: AnswerParser,
        source: PrefixSource,
    ) -> Result<(Box<Generation>, Sequence), GenerateError> {
        let generation = self.factory.generation(&self.scheduler, request, parser)?;
        let query = self.scheduler.prefix_query(prompt, request);
        let running = self.running.iter().map(|one| &one.sequence);
        let alike = running.clone().filter(|sequence| query.matches(sequence));
        let longest = alike.map(|sequence| sequence.future_prefix_len(prompt)).max().unwrap_or(0);
        let longest = longest.max(self.scheduler.longest_cached_prefix(&query));
        let mut sequence = self.scheduler.create_from(source, running)?;
        sequence.set_priority(request.priority);
        let begun = self.scheduler.set_salt(&mut sequence, request.cache_salt.as_ref());
        let begun = begun.and_then(|()| self.scheduler.adapt(&mut sequence, &request.adapters));
        let begun = begun.and_then(|()| self.scheduler.begin_request(&mut sequence, prompt, request));
        if let Err(error) = begun {
            return Err(self.scheduler.free(sequence).err().unwrap_or(error));
        }
        self.scheduler.count_shared(sequence.cached());
        if self.scheduler.needs_boundaries() {
            let query = self.scheduler.prefix_query(prompt, request);
            self.add_chunk_boundaries(&mut sequence, longest, &query, request.tenant);
            self.scheduler.set_snapshot_positions(&mut sequence);
        }
        Ok((Box::new(generation), sequence))
    }

    /// Ends chunks of a prompt where other prompts differ from it, so that they can start with the state there. These
    /// are the positions where waiting requests differ, and `longest`, where a known sequence differs. `longest` is
    /// ignored if it is less than [`MIN_BOUNDARY_DISTANCE`] rows away: later requests then compute these rows again.
    fn add_chunk_boundaries(
        &self,
        sequence: &mut Sequence,
        longest: usize,
        query: &PrefixQuery,
        tenant: u64,
    ) {
        let compared = self.waiting.requests(tenant).take(COMPARED_REQUESTS);
        let alike = compared.filter(|one| one.prefix_query(&self.scheduler).is_like(query));
        let lengths: BTreeSet<usize> =
            alike.map(|one| shared_prefix_len(query.prompt, &one.prompt)).collect();
        let longest = (longest >= sequence.computed + MIN_BOUNDARY_DISTANCE).then_some(longest);
        let lengths = lengths.into_iter().rev().chain(longest).filter(|&len| len >= MIN_SHARED_TOKENS);
        lengths.take(MAX_BOUNDARIES).for_each(|len| sequence.add_chunk_boundary(len));
    }
}

/// Whether a waiting request can start beside the running ones.
fn admission(
    request: &WaitingRequest,
    running: &mut [RunningRequest],
    scheduler: &mut Scheduler,
) -> Result<Admission, GenerateError> {
    let query = request.prefix_query(scheduler);
    let source = scheduler.prefix_source(&query, running.iter().map(|one| &one.sequence))?;
    let needs_boundaries = scheduler.needs_boundaries();
    for RunningRequest { sequence, .. } in &mut *running {
        let is_ahead = sequence.urgency.priority >= request.priority() && query.matches(sequence);
        if !is_ahead || !scheduler.shares_prefixes() {
            continue;
        }
        let shared = sequence.future_prefix_len(query.prompt);
        if sequence.computed < shared && shared >= source.tokens() + MIN_SHARED_TOKENS {
            if needs_boundaries {
                sequence.add_chunk_boundary(shared);
            }
            return Ok(Admission::WaitForPrefix);
        }
    }
    if running.is_empty() {
        return Ok(Admission::Start(source));
    }
    // Reserved for each running request: its pending tokens and one page of answer.
    let page = scheduler.pool.page_len();
    let reserved: usize = running.iter().map(|one| one.sequence.pending() + page).sum();
    let needed = request.prompt.len().saturating_sub(source.tokens()) + page;
    let spared = scheduler.cached_id(source);
    while scheduler.free_tokens() < reserved.saturating_add(needed) {
        if !scheduler.evict(spared)? {
            return Ok(Admission::WaitForMemory);
        }
    }
    // Evictions move the cached sequences: look for the source again.
    Ok(Admission::Start(scheduler.prefix_source(&query, running.iter().map(|one| &one.sequence))?))
}

//! [`Queue`]: generations that come and go while others run.

use crate::batch::breakers::KnownBreakers;
use crate::batch::{Held, Job, Run, Task, TokenTask};
use crate::capability::Tokenizing;
use crate::error::GenerateError;
use crate::generation::Generation;
use crate::hooks::{Begun, RequestKind, RequestStart};
use crate::output::Step;
use crate::prefill::shared;
use crate::reasoning::ReasoningSplitter;
use crate::request::{Event, Outcome, Request};
use crate::scheduler::{Beginning, LEAST_SHARED, Scheduler, Source};
use crate::sequence::{PATIENCE, Sequence, Wanted};
use crate::stopping::StopReason;
use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Waiting tasks that are looked through for beginnings they share with one that begins.
const LOOKED_THROUGH: usize = 64;

/// Generations that come and go: a task waits for a place and for pages, runs in steps together with others, and ends by
/// itself. One alone is a queue of one.
///
/// **Order.** Tasks begin by priority, then in the order they came; every sixteen steps of waiting count as one step of
/// priority, so that nobody waits for ever. A task whose prompt begins like that of one that is being computed waits for
/// that part of it, and shares it.
///
/// **Delay.** A step has at most the scheduler's `step_tokens` rows, sequences that decode first: however long the prompts
/// of others are, no more than one such step lies between two tokens of a sequence.
pub struct Queue<'a> {
    pub(super) scheduler: &'a mut Scheduler,
    tokenizer: Option<&'a dyn Tokenizing>,
    breakers: &'a mut KnownBreakers,
    waiting: Vec<Waiting>,
    pub(super) running: Vec<Run<'a>>,
    /// Tasks that ended before a step could tell of them.
    pub(crate) ended: Vec<Ended>,
    pub(crate) cancelled: BTreeSet<usize>,
    /// Tasks that the callback of events stopped: they end at the next step, and it hears no more of them.
    pub(crate) stopped: BTreeSet<usize>,
    tickets: usize,
    pub(crate) steps: usize,
}

/// A task of a queue: its number, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket(pub usize);

/// How a task ended.
pub type Ended = (Ticket, Result<Outcome, GenerateError>);

/// A task that has not begun.
struct Waiting {
    ticket: usize,
    task: TokenTask,
    life: Begun,
    /// Steps of the queue when it came.
    since: usize,
    came: Instant,
}

/// Whether a task can begin.
enum Verdict {
    /// It goes on from here.
    Begins(Source),
    /// One that runs is computing what it begins with; others may begin meanwhile.
    Shares,
    /// There is no room for it; nobody is to overtake it.
    LacksRoom,
}

impl<'a> Queue<'a> {
    pub(crate) fn new(
        scheduler: &'a mut Scheduler,
        tokenizer: Option<&'a dyn Tokenizing>,
        breakers: &'a mut KnownBreakers,
    ) -> Self {
        Self {
            scheduler,
            tokenizer,
            breakers,
            waiting: Vec::new(),
            running: Vec::new(),
            ended: Vec::new(),
            cancelled: BTreeSet::new(),
            stopped: BTreeSet::new(),
            tickets: 0,
            steps: 0,
        }
    }

    /// Adds a task; it begins at one of the next steps, or ends there if its prompt cannot be encoded.
    pub fn submit(&mut self, task: Task) -> Ticket {
        let (ticket, life) = (self.ticket(), self.begun_request());
        match task.encoded(self.tokenizer) {
            Ok(task) => {
                let (since, came) = (self.steps, Instant::now());
                self.waiting.push(Waiting { ticket: ticket.0, task, life, since, came });
            }
            Err(error) => self.refuse(ticket, life, error),
        }
        ticket
    }

    /// Begins at once with a sequence that stays its owner's.
    pub(crate) fn lend(&mut self, job: Job<'a>) -> Ticket {
        let ticket = self.ticket();
        let life = self.begun_request();
        let begun = self.begin_lent(job);
        self.begun(ticket, life, begun);
        ticket
    }

    fn begun_request(&self) -> Begun {
        Begun::new(&self.scheduler.hooks().lifecycles, RequestKind::Text)
    }

    /// Puts a task among those that run, or those that ended.
    fn begun(
        &mut self,
        ticket: Ticket,
        life: Begun,
        begun: Result<(Box<Generation<'a>>, Held<'a>), GenerateError>,
    ) {
        match begun {
            Ok((mut generation, sequence)) => {
                generation.begin(&sequence);
                let (prompt_tokens, cached_tokens) = (sequence.prompt, sequence.cached());
                let adapters = sequence.adapters();
                let life = life.initialized(&RequestStart { prompt_tokens, cached_tokens, adapters });
                self.running.push(Run { ticket: ticket.0, generation, sequence, life });
            }
            Err(error) => self.refuse(ticket, life, error),
        }
    }

    /// Ends a task that has not begun.
    fn refuse(&mut self, ticket: Ticket, life: Begun, error: GenerateError) {
        life.refused(&error);
        self.ended.push((ticket, Err(error)));
    }

    /// Ends a task at the next step, wherever it is; what it gave so far is its outcome. Nothing happens if it has ended.
    pub fn cancel(&mut self, ticket: Ticket) {
        self.cancelled.insert(ticket.0);
    }

    /// Whether there is nothing to do.
    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.running.is_empty() && self.ended.is_empty()
    }

    /// Tasks that have not begun.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Tasks under way.
    pub fn running(&self) -> usize {
        self.running.len()
    }

    /// The scheduler below.
    pub fn scheduler(&self) -> &Scheduler {
        self.scheduler
    }

    /// The logits of a run whose prompt is held as a whole, from an answer to it before; none where nobody has any.
    pub(crate) fn known(&mut self) -> Option<Step> {
        self.running.iter_mut().enumerate().find_map(|(index, run)| run.sequence.known_logits(index))
    }

    /// One step of what runs; none where nothing does.
    pub(crate) fn compute(&mut self) -> Option<Step> {
        let cancel = common_flag(&self.running);
        let mut sequences: Vec<&mut Sequence> =
            self.running.iter_mut().map(|run| &mut *run.sequence).collect();
        (!sequences.is_empty()).then(|| self.scheduler.step(&mut sequences, cancel.as_deref()))
    }

    /// Hands what a step gave to the runs, and ends those that are over.
    pub(crate) fn answer(&mut self, step: Step, sink: &mut dyn FnMut(Ticket, Event)) {
        let mut over = Vec::new();
        let Self { running, scheduler, .. } = self;
        step.each(&mut |index, output| {
            let run = &mut running[index];
            let ticket = Ticket(run.ticket);
            let next =
                output.and_then(|output| run.go_on(scheduler, output, &mut |event| sink(ticket, event)));
            match next {
                Ok(None) => {}
                Ok(Some(reason)) => over.push((index, Ok(reason))),
                Err(GenerateError::Cancelled) => over.push((index, Ok(StopReason::Cancelled))),
                Err(error) => over.push((index, Err(error))),
            }
        });
        over.sort_by_key(|(index, _)| Reverse(*index));
        over.into_iter().for_each(|(index, how)| self.end(index, how, sink));
    }

    fn end(
        &mut self,
        index: usize,
        how: Result<StopReason, GenerateError>,
        sink: &mut dyn FnMut(Ticket, Event),
    ) {
        let run = self.running.remove(index);
        let ticket = Ticket(run.ticket);
        self.cancelled.remove(&ticket.0);
        let result = run.end(self.scheduler, how, &mut |event| sink(ticket, event));
        self.ended.push((ticket, result));
    }

    pub(crate) fn end_cancelled(&mut self, sink: &mut dyn FnMut(Ticket, Event)) {
        for index in (0..self.running.len()).rev() {
            let run = &self.running[index];
            if run.is_cancelled() || self.cancelled.contains(&run.ticket) {
                self.end(index, Ok(StopReason::Cancelled), sink);
            }
        }
        let cancelled = std::mem::take(&mut self.cancelled);
        let is_cancelled = |waiting: &Waiting| {
            let flag = waiting.task.request.cancel.as_ref();
            cancelled.contains(&waiting.ticket) || flag.is_some_and(|flag| flag.load(Ordering::Relaxed))
        };
        let (gone, stay): (Vec<Waiting>, _) =
            std::mem::take(&mut self.waiting).into_iter().partition(is_cancelled);
        self.waiting = stay;
        // Nothing came of them: that is no outcome.
        for Waiting { ticket, life, .. } in gone {
            self.refuse(Ticket(ticket), life, GenerateError::Cancelled);
        }
    }

    /// Begins the tasks that have a place and room.
    pub(crate) fn admit(&mut self) {
        let steps = self.steps;
        self.waiting.sort_by_key(|one| {
            let patience = ((steps - one.since) / PATIENCE) as i64;
            (Reverse(i64::from(one.task.priority) + patience), one.ticket)
        });
        let mut index = 0;
        while index < self.waiting.len() && self.running.len() < self.scheduler.sequences() {
            match self.verdict(index) {
                Ok(Verdict::LacksRoom) => break,
                Ok(Verdict::Shares) => index += 1,
                Ok(Verdict::Begins(source)) => {
                    let Waiting { ticket, task, life, came, .. } = self.waiting.remove(index);
                    let begun = self.begin(task, came, source);
                    self.begun(Ticket(ticket), life, begun);
                }
                Err(error) => {
                    let Waiting { ticket, life, .. } = self.waiting.remove(index);
                    self.refuse(Ticket(ticket), life, error);
                }
            }
        }
    }

    /// Whether the task at a place of the waiting ones can begin.
    fn verdict(&mut self, index: usize) -> Result<Verdict, GenerateError> {
        let Waiting { task, .. } = &self.waiting[index];
        let start = self.scheduler.beginning(&task.prompt, &task.request.adapters);
        let source = self.scheduler.source(&start, self.running.iter().map(|run| &*run.sequence))?;
        let cuts = self.scheduler.needs_cuts();
        for run in &mut self.running {
            let sequence = &mut *run.sequence;
            let behind = sequence.urgency.priority >= task.priority && start.fits(sequence);
            if !behind || !self.scheduler.shares() {
                continue;
            }
            let prospect = sequence.prospect(&task.prompt);
            if sequence.held < prospect && prospect >= source.tokens() + LEAST_SHARED {
                if cuts {
                    sequence.cut_at(prospect);
                }
                return Ok(Verdict::Shares);
            }
        }
        if self.running.is_empty() {
            return Ok(Verdict::Begins(source));
        }
        // What those that run have still to compute is theirs, and a page for what each will say.
        let page = self.scheduler.page_len();
        let owed: usize = self.running.iter().map(|run| run.sequence.pending() + page).sum();
        let own = task.prompt.len().saturating_sub(source.tokens()) + page;
        let spared = self.scheduler.kept_id(source);
        while self.scheduler.free_tokens() < owed.saturating_add(own) {
            if !self.scheduler.evict(spared)? {
                return Ok(Verdict::LacksRoom);
            }
        }
        // Others were given up: it may lie at another place now.
        let start = self
            .scheduler
            .beginning(&self.waiting[index].task.prompt, &self.waiting[index].task.request.adapters);
        let running = self.running.iter().map(|run| &*run.sequence);
        Ok(Verdict::Begins(self.scheduler.source(&start, running)?))
    }

    fn begin(
        &mut self,
        task: TokenTask,
        came: Instant,
        source: Source,
    ) -> Result<(Box<Generation<'a>>, Held<'a>), GenerateError> {
        let TokenTask { prompt, request, splitter, priority } = task;
        let adapters = request.adapters.clone();
        let generation = self.generation(Cow::Owned(request), splitter)?;
        let running = self.running.iter().map(|run| &*run.sequence);
        let known = {
            let start = self.scheduler.beginning(&prompt, &adapters);
            let running = running.clone().filter(|sequence| start.fits(sequence));
            let alike = running.map(|sequence| sequence.prospect(&prompt)).max().unwrap_or(0);
            alike.max(self.scheduler.known(&start))
        };
        let mut sequence = self.scheduler.create_from(source, running)?;
        sequence.set_priority(priority);
        let begun = self.scheduler.adapt(&mut sequence, &adapters);
        let begun = begun.and_then(|()| self.scheduler.begin(&mut sequence, &prompt, Wanted::Last));
        if let Err(error) = begun {
            return Err(self.scheduler.free(sequence).err().unwrap_or(error));
        }
        self.scheduler.count_shared(sequence.cached());
        if self.scheduler.needs_cuts() {
            let start = self.scheduler.beginning(&prompt, &adapters);
            cut(&mut sequence, known, &start, &self.waiting, self.scheduler);
            self.scheduler.set_borders(&mut sequence);
        }
        Ok((Box::new(generation.after_waiting(came.elapsed())), Held::Own(Box::new(sequence))))
    }

    fn begin_lent(&mut self, job: Job<'a>) -> Result<(Box<Generation<'a>>, Held<'a>), GenerateError> {
        let Job { sequence, prompt, request } = job;
        let (prompt, splitter) = prompt.encoded(self.tokenizer)?;
        let generation = Box::new(self.generation(Cow::Borrowed(request), splitter)?);
        self.scheduler.adapt(sequence, &request.adapters)?;
        self.scheduler.begin(sequence, &prompt, Wanted::Last)?;
        Ok((generation, Held::Lent(sequence)))
    }

    fn generation(
        &mut self,
        request: Cow<'a, Request>,
        splitter: ReasoningSplitter,
    ) -> Result<Generation<'a>, GenerateError> {
        let limits = [self.scheduler.engine().context, self.scheduler.engine().vocabulary()];
        let breakers = self.breakers.of(self.tokenizer, &request);
        Generation::new(request, limits, self.tokenizer, breakers, splitter)
    }

    fn ticket(&mut self) -> Ticket {
        self.tickets += 1;
        Ticket(self.tickets - 1)
    }
}

impl Drop for Queue<'_> {
    /// Gives the state of what still runs back.
    fn drop(&mut self) {
        for run in self.running.drain(..) {
            if let Held::Own(sequence) = run.sequence {
                // Of this scheduler: it cannot fail.
                let _freed = self.scheduler.free(*sequence);
            }
        }
    }
}

/// Cuts a prompt where others are known to part from it: where waiting tasks do, and where a known sequence does, unless that
/// is so near that those who come later had better compute the rows between again.
fn cut(sequence: &mut Sequence, known: usize, start: &Beginning, waiting: &[Waiting], scheduler: &Scheduler) {
    let next = waiting.iter().take(LOOKED_THROUGH).filter(|one| {
        let other = scheduler.beginning(&one.task.prompt, &one.task.request.adapters);
        other.is_like(start)
    });
    let lengths: BTreeSet<usize> = next.map(|one| shared(start.prompt, &one.task.prompt)).collect();
    let known = (known >= sequence.held + LEAST_CUT).then_some(known);
    let lengths = lengths.into_iter().rev().chain(known).filter(|&len| len >= LEAST_SHARED);
    lengths.take(MOST_CUTS).for_each(|len| sequence.cut_at(len));
}

/// Fewest rows a prompt has before a cut that nobody waits for: each costs a smaller step and a copy of the states, which are
/// worth some twenty rows each.
const LEAST_CUT: usize = 64;

/// Most lengths a prompt is cut at because of tasks that wait: each makes a smaller step.
const MOST_CUTS: usize = 4;

/// The flag that all runs have.
fn common_flag(runs: &[Run]) -> Option<Arc<AtomicBool>> {
    let mut flags = runs.iter().map(Run::flag);
    let first = flags.next()??;
    flags.all(|flag| flag.is_some_and(|flag| Arc::ptr_eq(flag, first))).then(|| Arc::clone(first))
}

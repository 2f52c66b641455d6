//! [`Batch`]: generations of one or several sequences, stepped together.

use crate::capability::Tokenizing;
use crate::chat::RenderedPrompt;
use crate::engine::Engine;
use crate::error::GenerateError;
use crate::generation::{Generation, Next};
use crate::reasoning::ReasoningSplitter;
use crate::request::{Event, Outcome, Request, StopReason};
use crate::sampling::Breakers;
use crate::scheduler::Scheduler;
use crate::sequence::{Sequence, Wanted};
use crate::step::{Step, StepPart};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Generates text with sequences of one scheduler, several in one step.
pub struct Batch {
    scheduler: Scheduler,
    tokenizer: Option<Arc<dyn Tokenizing>>,
    /// DRY's breakers, looked up once for the same strings.
    breakers: Option<(Vec<String>, Arc<Breakers>)>,
}

/// What one sequence of a batch is to do.
pub struct Job<'a> {
    sequence: &'a mut Sequence,
    prompt: &'a [u32],
    request: &'a Request,
    splitter: ReasoningSplitter,
}

impl<'a> Job<'a> {
    /// Continues `prompt`.
    pub fn tokens(sequence: &'a mut Sequence, prompt: &'a [u32], request: &'a Request) -> Self {
        Self { sequence, prompt, request, splitter: ReasoningSplitter::off() }
    }

    /// Continues a rendered conversation; reasoning is told apart from the answer.
    pub fn chat(sequence: &'a mut Sequence, prompt: &'a RenderedPrompt, request: &'a Request) -> Self {
        let splitter = ReasoningSplitter::new(&prompt.reasoning_tags, prompt.reasoning_open.as_ref());
        Self { sequence, prompt: &prompt.tokens, request, splitter }
    }
}

/// A job that goes on, or how it ended.
enum Run<'a> {
    Going(Box<Generation<'a>>, &'a mut Sequence, &'a Request),
    Done(Result<Outcome, GenerateError>),
}

impl Batch {
    /// Generations on `scheduler`; without a tokenizer they deal in token ids only.
    pub fn new(scheduler: Scheduler, tokenizer: Option<Arc<dyn Tokenizing>>) -> Self {
        Self { scheduler, tokenizer, breakers: None }
    }

    /// The engine below.
    pub fn engine(&self) -> &Arc<Engine> {
        self.scheduler.engine()
    }

    /// The scheduler below: to create and free sequences, and to run single steps.
    pub fn scheduler_mut(&mut self) -> &mut Scheduler {
        &mut self.scheduler
    }

    /// Runs all jobs to their end, in steps that they share; `sink` is told what happens to which job. What goes wrong with
    /// one job is its result, and the others go on. A part of each prompt that its sequence holds from before is kept.
    ///
    /// Cancellation is an outcome. It is looked at between steps, and between layers where all jobs have one flag.
    pub fn generate(
        &mut self,
        jobs: Vec<Job>,
        sink: &mut dyn FnMut(usize, Event),
    ) -> Vec<Result<Outcome, GenerateError>> {
        let breakers: Vec<Arc<Breakers>> = jobs.iter().map(|job| self.breakers(job.request)).collect();
        let Self { scheduler, tokenizer, .. } = self;
        let starts = jobs.into_iter().zip(breakers);
        let mut runs: Vec<Run> = starts
            .map(|(job, breakers)| start(scheduler, tokenizer.as_deref(), job, breakers))
            .map(|started| started.unwrap_or_else(|error| Run::Done(Err(error))))
            .collect();
        while step(scheduler, &mut runs, sink) {}
        let ended = |run| match run {
            Run::Done(result) => result,
            // Not reached: the loop ends when every run has.
            Run::Going(..) => Err(GenerateError::Cancelled),
        };
        runs.into_iter().map(ended).collect()
    }

    fn breakers(&mut self, request: &Request) -> Arc<Breakers> {
        let strings = &request.sampling.dry_breakers;
        let Some(tokenizer) = self.tokenizer.as_ref().filter(|_| request.sampling.dry_multiplier > 0.0)
        else {
            return Arc::default();
        };
        if let Some((_, breakers)) = self.breakers.as_ref().filter(|(known, _)| known == strings) {
            return Arc::clone(breakers);
        }
        let pieces: Vec<String> = (0..tokenizer.vocabulary() as u32).map(|id| tokenizer.piece(id)).collect();
        let encode = |text: &str| tokenizer.encode(text).unwrap_or_default();
        let breakers = Arc::new(Breakers::find(strings, &pieces, &encode));
        self.breakers = Some((strings.clone(), Arc::clone(&breakers)));
        breakers
    }
}

fn start<'a>(
    scheduler: &mut Scheduler,
    tokenizer: Option<&'a dyn Tokenizing>,
    job: Job<'a>,
    breakers: Arc<Breakers>,
) -> Result<Run<'a>, GenerateError> {
    let Job { sequence, prompt, request, splitter } = job;
    let limits = [scheduler.engine().context, scheduler.engine().vocabulary()];
    let mut generation = Generation::new(request, limits, tokenizer, breakers, splitter)?;
    scheduler.adapt(sequence, &request.adapters)?;
    scheduler.begin(sequence, prompt, Wanted::Last)?;
    generation.begin(sequence);
    Ok(Run::Going(Box::new(generation), sequence, request))
}

/// One step of the runs that go on; `false` if none does.
fn step(scheduler: &mut Scheduler, runs: &mut [Run], sink: &mut dyn FnMut(usize, Event)) -> bool {
    for (index, run) in runs.iter_mut().enumerate() {
        if run.is_cancelled() {
            run.end(Ok(StopReason::Cancelled), &mut |event| sink(index, event));
        }
    }
    let cancel = common_flag(runs);
    let (mut going, mut sequences) = (Vec::new(), Vec::new());
    for (index, run) in runs.iter_mut().enumerate() {
        if let Run::Going(_, sequence, _) = run {
            going.push(index);
            sequences.push(&mut **sequence);
        }
    }
    if going.is_empty() {
        return false;
    }
    let Step { logits, width, parts } = scheduler.step(&mut sequences, cancel.as_deref());
    for StepPart { index, result } in parts {
        let index = going[index];
        let sink = &mut |event: Event| sink(index, event);
        let result = result.and_then(|rows| Ok((logits.values()?, rows)));
        match result {
            Ok((values, rows)) => {
                let row = values.get(rows.start * width..rows.end * width).unwrap_or_default();
                runs[index].go_on(scheduler, row, sink);
            }
            Err(GenerateError::Cancelled) => runs[index].end(Ok(StopReason::Cancelled), sink),
            Err(error) => runs[index].end(Err(error), sink),
        }
    }
    true
}

/// The flag that all runs that go on have.
fn common_flag(runs: &[Run]) -> Option<Arc<AtomicBool>> {
    let mut flags = runs.iter().filter_map(|run| match run {
        Run::Going(_, _, request) => Some(request.cancel.as_ref()),
        Run::Done(_) => None,
    });
    let first = flags.next()??;
    flags.all(|flag| flag.is_some_and(|flag| Arc::ptr_eq(flag, first))).then(|| Arc::clone(first))
}

impl Run<'_> {
    fn is_cancelled(&self) -> bool {
        match self {
            Self::Going(_, _, Request { cancel: Some(flag), .. }) => flag.load(Ordering::Relaxed),
            _ => false,
        }
    }

    /// After a step: takes the row of logits `[V]`, if it is there already.
    fn go_on(&mut self, scheduler: &mut Scheduler, row: &[f32], sink: &mut dyn FnMut(Event)) {
        let Self::Going(generation, sequence, _) = self else { return };
        if let Some((done, total)) = generation.prompt_progress(sequence) {
            sink(Event::Prefill { done, total, cached: sequence.cached() });
        }
        if row.is_empty() {
            return;
        }
        match generation.take(row, sequence, sink) {
            Ok(Next::Stop(reason)) => self.end(Ok(reason), sink),
            Ok(Next::Feed(id)) => match scheduler.push(sequence, id) {
                Ok(false) => {}
                Ok(true) => {
                    let tokens = sequence.tokens.len();
                    let notice = format!(
                        "the sequence reached {tokens} tokens: prefilled again with the long rope factors"
                    );
                    sink(Event::Notice(&notice));
                }
                Err(error) => self.end(Err(error), sink),
            },
            Err(error) => self.end(Err(error), sink),
        }
    }

    fn end(&mut self, how: Result<StopReason, GenerateError>, sink: &mut dyn FnMut(Event)) {
        let going = std::mem::replace(self, Self::Done(Err(GenerateError::Cancelled)));
        *self = match (going, how) {
            (Self::Going(generation, sequence, _), how) => {
                // A token that was to be fed is not part of the sequence.
                sequence.tokens.truncate(sequence.held);
                Self::Done(how.map(|reason| generation.finish(reason, sequence, sink)))
            }
            (done, _) => done,
        };
    }
}

//! [`Evaluation`]: a sequence that is computed without an answer: for its logits, for hooks, for measurements of time.

use crate::error::GenerateError;
use crate::hooks::{RequestArrival, RequestKind, RequestProgress, RequestStart};
use crate::output::StepOutput;
use crate::scheduler::Scheduler;
use crate::sequence::{LogitRows, Sequence};
use std::sync::atomic::AtomicBool;

/// A sequence that is computed without an answer. Each prompt of it is a request, which ends with [`Self::end`] or
/// with the first error.
pub struct Evaluation<'a> {
    scheduler: Scheduler,
    sequence: Sequence,
    kind: RequestKind,
    cancel: Option<&'a AtomicBool>,
    /// The current request.
    progress: Option<RequestProgress>,
}

impl<'a> Evaluation<'a> {
    /// An empty sequence of `scheduler`, for requests of this kind.
    ///
    /// # Errors
    /// The scheduler has no place for a sequence.
    pub fn new(
        mut scheduler: Scheduler,
        kind: RequestKind,
        cancel: Option<&'a AtomicBool>,
    ) -> Result<Self, GenerateError> {
        let sequence = scheduler.create()?;
        Ok(Self { scheduler, sequence, kind, cancel, progress: None })
    }

    /// Starts a request: makes the sequence hold `prompt`. `logit_rows` are the rows whose logits are needed.
    ///
    /// # Errors
    /// As [`Scheduler::begin`]; the request has then ended.
    pub fn begin(&mut self, prompt: &[u32], logit_rows: LogitRows) -> Result<(), GenerateError> {
        let arrival = RequestArrival::new(&self.scheduler.hooks().lifecycles, self.kind);
        match self.scheduler.begin(&mut self.sequence, prompt, logit_rows) {
            Ok(()) => self.initialized(arrival),
            Err(error) => {
                arrival.refused(&error);
                return Err(error);
            }
        }
        Ok(())
    }

    /// A whole request: computes all of a prompt, so that hooks see it.
    ///
    /// # Errors
    /// As [`Self::begin`] and [`Self::feed`].
    pub fn watch(&mut self, prompt: &[u32]) -> Result<(), GenerateError> {
        // Hooks do not see a prefix that is computed already.
        self.scheduler.reset(&mut self.sequence)?;
        self.begin(prompt, LogitRows::Last)?;
        self.feed(&mut |output| output.last_logits().map(drop))?;
        self.end();
        Ok(())
    }

    /// A whole request: computes the first `prompt` of `tokens` as a prompt, and the others one by one; `take`
    /// receives the output of each step.
    ///
    /// # Errors
    /// As [`Self::begin`], [`Self::push`] and [`Self::feed`].
    pub fn read(
        &mut self,
        tokens: &[u32],
        prompt: usize,
        take: &mut dyn FnMut(StepOutput) -> Result<(), GenerateError>,
    ) -> Result<(), GenerateError> {
        let (prompt, rest) = tokens.split_at(prompt);
        self.begin(prompt, LogitRows::All)?;
        self.feed(take)?;
        for &token in rest {
            self.push(token)?;
            self.feed(take)?;
        }
        self.end();
        Ok(())
    }

    /// Starts a request that continues what the sequence holds.
    pub fn go_on(&mut self) {
        self.initialized(RequestArrival::new(&self.scheduler.hooks().lifecycles, self.kind));
    }

    fn initialized(&mut self, arrival: RequestArrival) {
        let held = self.sequence.tokens().len();
        let prompt_tokens = held + self.sequence.pending();
        let adapters = self.sequence.adapters();
        self.progress =
            Some(arrival.initialized(&RequestStart { prompt_tokens, cached_tokens: held, adapters }));
    }

    /// Makes the sequence hold exactly `tokens`, before a request that measures what follows.
    ///
    /// # Errors
    /// As [`Self::begin`] and [`Self::feed`].
    pub fn hold(&mut self, tokens: &[u32]) -> Result<(), GenerateError> {
        self.scheduler.reset(&mut self.sequence)?;
        if tokens.is_empty() {
            return Ok(());
        }
        self.scheduler.begin(&mut self.sequence, tokens, LogitRows::Last)?;
        self.feed(&mut |output| output.last_logits().map(drop))
    }

    /// Adds a token, which the next step computes.
    ///
    /// # Errors
    /// As [`Scheduler::push`].
    pub fn push(&mut self, token: u32) -> Result<(), GenerateError> {
        let result = self.scheduler.push(&mut self.sequence, token).map(drop);
        self.report_error(result)
    }

    /// Reports a token that stands for one of an answer.
    pub fn token(&mut self) {
        if let Some(progress) = &mut self.progress {
            progress.token();
        }
    }

    /// Whether there are pending tokens.
    pub fn is_pending(&self) -> bool {
        self.sequence.pending() > 0
    }

    /// Runs one step; `take` receives its output.
    ///
    /// # Errors
    /// An error of the step or of `take`.
    pub fn step(
        &mut self,
        take: &mut dyn FnMut(StepOutput) -> Result<(), GenerateError>,
    ) -> Result<(), GenerateError> {
        let step = self.scheduler.step(&mut [&mut self.sequence], self.cancel);
        self.report_error(step.only(take))
    }

    /// Runs steps until there are no pending tokens.
    ///
    /// # Errors
    /// As [`Self::step`].
    pub fn feed(
        &mut self,
        take: &mut dyn FnMut(StepOutput) -> Result<(), GenerateError>,
    ) -> Result<(), GenerateError> {
        while self.is_pending() {
            self.step(take)?;
        }
        Ok(())
    }

    /// Ends the request: it has its result.
    pub fn end(&mut self) {
        if let Some(progress) = self.progress.take() {
            progress.computed(self.sequence.tokens().len());
        }
    }

    /// Ends the request if `result` is an error.
    fn report_error(&mut self, result: Result<(), GenerateError>) -> Result<(), GenerateError> {
        if let Err(error) = &result
            && let Some(progress) = self.progress.take()
        {
            progress.failed(error);
        }
        result
    }
}

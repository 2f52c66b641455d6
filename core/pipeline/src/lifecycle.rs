//! [`PipelineLifecycle`]: what is told of every request: that it begins, that it is initialised, that it ends.

use crate::error::GenerateError;
use crate::request::Outcome;
use crate::scheduler::SchedulerCounts;
use menagerie_model::AdapterSet;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Number of a request, from 1 in every process; none is given twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestId(u64);

impl RequestId {
    fn next() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        Self(LAST.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// The number.
    pub fn number(self) -> u64 {
        self.0
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A request whose sequence has its prompt.
#[derive(Clone, Copy, Debug)]
pub struct RequestStart<'a> {
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
    /// Of them, how many are held from before and are not computed.
    pub cached_tokens: usize,
    /// The adapters that act.
    pub adapters: Option<&'a Arc<AdapterSet>>,
}

/// How a request ended.
#[derive(Clone, Copy, Debug)]
pub enum RequestEnd<'a> {
    /// With an outcome; cancellation is one.
    Finished(&'a Outcome),
    /// With an error.
    Failed(&'a GenerateError),
    /// Whoever ran it let it go, or panicked.
    Abandoned,
}

/// A step of a scheduler, of whichever requests.
#[derive(Clone, Copy, Debug)]
pub struct StepReport {
    /// What it did.
    pub done: SchedulerCounts,
    /// Bytes of state that hold tokens now.
    pub state_bytes: usize,
    /// How long it took.
    pub time: Duration,
}

/// Told of every generation of a pipeline. `begins` and `ends` come once each, whatever happens in between; `initialised`
/// once between them, unless the request is refused before its sequence has its prompt. Called on the thread that runs the
/// request: what takes long holds it up.
pub trait PipelineLifecycle: Send + Sync {
    /// A request begins; nothing of it has been looked at.
    fn begins(&self, request: RequestId) {
        let _ = request;
    }

    /// Its sequence has its prompt; the first step comes next.
    fn initialised(&self, request: RequestId, start: &RequestStart) {
        let _ = (request, start);
    }

    /// A token of its answer was taken, so long after the one before it (none before the first).
    fn token(&self, request: RequestId, since: Option<Duration>) {
        let _ = (request, since);
    }

    /// A step was computed, in which rows of several requests may have been.
    fn stepped(&self, report: &StepReport) {
        let _ = report;
    }

    /// It has ended.
    fn ends(&self, request: RequestId, end: &RequestEnd) {
        let _ = (request, end);
    }
}

/// A request that has begun and not ended; tells who wants to know. Dropped, it has been abandoned.
pub(crate) struct Life {
    request: RequestId,
    told: Vec<Arc<dyn PipelineLifecycle>>,
    /// When the newest token was taken.
    newest: Option<Instant>,
    span: tracing::Span,
}

impl Life {
    /// A request begins.
    pub(crate) fn begin(told: &[Arc<dyn PipelineLifecycle>]) -> Self {
        let request = RequestId::next();
        let span = tracing::debug_span!("request", id = request.0);
        let life = Self { request, told: told.to_vec(), newest: None, span };
        life.told.iter().for_each(|one| one.begins(life.request));
        life
    }

    /// It has its prompt.
    pub(crate) fn initialised(&self, start: &RequestStart) {
        let RequestStart { prompt_tokens, cached_tokens, .. } = *start;
        tracing::debug!(parent: &self.span, prompt_tokens, cached_tokens, "initialised");
        self.told.iter().for_each(|one| one.initialised(self.request, start));
    }

    /// A token of its answer was taken.
    pub(crate) fn token(&mut self) {
        if self.told.is_empty() {
            return;
        }
        let now = Instant::now();
        let since = self.newest.replace(now).map(|before| now - before);
        self.told.iter().for_each(|one| one.token(self.request, since));
    }

    /// It ends.
    pub(crate) fn end(mut self, result: &Result<Outcome, GenerateError>) {
        let end = match result {
            Ok(outcome) => {
                let generated_tokens = outcome.statistics.generated_tokens;
                tracing::debug!(parent: &self.span, generated_tokens, reason = %outcome.reason, "finished");
                RequestEnd::Finished(outcome)
            }
            Err(error) => {
                tracing::debug!(parent: &self.span, %error, "failed");
                RequestEnd::Failed(error)
            }
        };
        self.tell(&end);
    }

    fn tell(&mut self, end: &RequestEnd) {
        std::mem::take(&mut self.told).iter().for_each(|one| one.ends(self.request, end));
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        self.tell(&RequestEnd::Abandoned);
    }
}

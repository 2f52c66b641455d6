//! [`PipelineLifecycle`]: is notified when a request arrives, is initialized and ends.

use crate::disk_cache::DiskCacheCounts;
use crate::error::GenerateError;
use crate::request::Outcome;
use crate::stats::SchedulerCounts;
use menagerie_model::AdapterSet;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The number of a request, from 1 in every process; unique.
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

/// What a request computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RequestKind {
    /// An answer.
    Text,
    /// Logits of tokens.
    Logits,
    /// Perplexity of tokens.
    Perplexity,
    /// Measurements of time.
    Bench,
    /// Activations between layers, for control vectors and gates.
    Activations,
    /// A vector.
    Embedding,
    /// The score of a document for a query.
    Reranking,
}

impl RequestKind {
    /// Its name in traces.
    pub fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Logits => "logits",
            Self::Perplexity => "perplexity",
            Self::Bench => "bench",
            Self::Activations => "activations",
            Self::Embedding => "embedding",
            Self::Reranking => "reranking",
        }
    }
}

/// A request whose sequence has its prompt.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct RequestStart<'a> {
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
    /// Those of them whose state exists already.
    pub cached_tokens: usize,
    /// The adapters of its sequence.
    pub adapters: Option<&'a Arc<AdapterSet>>,
}

impl<'a> RequestStart<'a> {
    /// A request with these tokens and adapters.
    pub fn new(prompt_tokens: usize, cached_tokens: usize, adapters: Option<&'a Arc<AdapterSet>>) -> Self {
        Self { prompt_tokens, cached_tokens, adapters }
    }
}

/// How a request ended.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum RequestEnd<'a> {
    /// With an answer, which may have been cancelled.
    Finished(&'a Outcome),
    /// With a result other than an answer.
    Computed {
        /// Tokens that were computed, or whose state existed already.
        tokens: usize,
    },
    /// With an error. For requests other than answers, cancellation is an error.
    Failed(&'a GenerateError),
    /// Its owner dropped it, or panicked.
    Abandoned,
}

/// A step of a scheduler, with rows of any requests.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct StepReport {
    /// Bytes of state that hold tokens now.
    pub state_bytes: usize,
    /// Pages that hold tokens now, including those of cached sequences.
    pub pages_used: usize,
    /// Pages that are free.
    pub pages_free: usize,
    /// The duration of the step.
    pub time: Duration,
}

/// Is notified of every request of a pipeline. `begins` and `ends` are called exactly once for each request;
/// `initialized` is called once between them, unless the request fails before its sequence has its prompt. The calls
/// are on the thread that runs the request, so slow code delays it.
pub trait PipelineLifecycle: Send + Sync {
    /// A request arrives; nothing of it was checked yet.
    fn begins(&self, request: RequestId, kind: RequestKind) {
        let _ = (request, kind);
    }

    /// Its sequence has its prompt; the first step follows.
    fn initialized(&self, request: RequestId, start: &RequestStart) {
        let _ = (request, start);
    }

    /// A token of its answer was sampled, this long after the previous one (`None` for the first).
    fn token(&self, request: RequestId, since: Option<Duration>) {
        let _ = (request, since);
    }

    /// A step was computed, which may have rows of several requests.
    fn stepped(&self, report: &StepReport) {
        let _ = report;
    }

    /// What a scheduler has done since its last report: after each of its steps, and once more when it is dropped. All
    /// reports together count everything, including what happens between steps.
    fn counted(&self, done: &SchedulerCounts) {
        let _ = done;
    }

    /// What the disk cache of a scheduler has done since its last report; called as [`Self::counted`].
    fn disk_counted(&self, done: &DiskCacheCounts) {
        let _ = done;
    }

    /// The request has ended.
    fn ends(&self, request: RequestId, end: &RequestEnd) {
        let _ = (request, end);
    }
}

/// A pipeline whose requests can be observed.
pub trait Hookable {
    /// Adds a lifecycle that is notified of all later requests.
    fn add_lifecycle(&mut self, lifecycle: Arc<dyn PipelineLifecycle>);
}

/// A request that has arrived and whose sequence does not have its prompt yet. [`Self::initialized`] consumes it, so
/// that a request is initialized once.
pub struct RequestArrival(RequestObservers);

/// A request whose sequence has its prompt, until it ends.
pub struct RequestProgress {
    observers: RequestObservers,
    /// When the newest token was sampled.
    newest: Option<Instant>,
}

/// The lifecycles that are notified of a request. If it is dropped before the end, the request was abandoned.
struct RequestObservers {
    request: RequestId,
    lifecycles: Vec<Arc<dyn PipelineLifecycle>>,
    span: tracing::Span,
}

impl RequestArrival {
    /// A new request, which these lifecycles are notified of.
    pub fn new(lifecycles: &[Arc<dyn PipelineLifecycle>], kind: RequestKind) -> Self {
        let request = RequestId::next();
        let span = tracing::debug_span!("request", id = request.0, kind = kind.name());
        lifecycles.iter().for_each(|one| one.begins(request, kind));
        Self(RequestObservers { request, lifecycles: lifecycles.to_vec(), span })
    }

    /// Its id.
    pub(crate) fn id(&self) -> RequestId {
        self.0.request
    }

    /// Its sequence has the prompt.
    pub fn initialized(self, start: &RequestStart) -> RequestProgress {
        let Self(observers) = self;
        let RequestStart { prompt_tokens, cached_tokens, .. } = *start;
        tracing::debug!(parent: &observers.span, prompt_tokens, cached_tokens, "initialized");
        observers.lifecycles.iter().for_each(|one| one.initialized(observers.request, start));
        RequestProgress { observers, newest: None }
    }

    /// It cannot be computed.
    pub fn refused(self, error: &GenerateError) {
        self.0.failed(error);
    }
}

impl RequestProgress {
    /// A token of its answer was sampled.
    pub fn token(&mut self) {
        if self.observers.lifecycles.is_empty() {
            return;
        }
        let now = Instant::now();
        let since = self.newest.replace(now).map(|before| now - before);
        self.observers.lifecycles.iter().for_each(|one| one.token(self.observers.request, since));
    }

    /// It ends with an outcome or an error.
    pub(crate) fn answered(mut self, result: &Result<Outcome, GenerateError>) {
        match result {
            Ok(outcome) => {
                let (span, generated_tokens) = (&self.observers.span, outcome.statistics.generated_tokens);
                tracing::debug!(parent: span, generated_tokens, reason = %outcome.reason, "finished");
                self.observers.end(&RequestEnd::Finished(outcome));
            }
            Err(error) => self.failed(error),
        }
    }

    /// It ends with a result other than an answer.
    pub fn computed(mut self, tokens: usize) {
        tracing::debug!(parent: &self.observers.span, tokens, "computed");
        self.observers.end(&RequestEnd::Computed { tokens });
    }

    /// It ends with an error.
    pub fn failed(self, error: &GenerateError) {
        self.observers.failed(error);
    }
}

impl RequestObservers {
    fn failed(mut self, error: &GenerateError) {
        tracing::debug!(parent: &self.span, %error, "failed");
        self.end(&RequestEnd::Failed(error));
    }

    fn end(&mut self, end: &RequestEnd) {
        std::mem::take(&mut self.lifecycles).iter().for_each(|one| one.ends(self.request, end));
    }
}

impl Drop for RequestObservers {
    fn drop(&mut self) {
        self.end(&RequestEnd::Abandoned);
    }
}

//! [`EngineJob`]: what the thread of a model is asked for, and what it sends back.

use menagerie::engine::{EmbeddingOptions, Event, GenerateError, Outcome, Prompt, Request, TextTokens};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;
use tokio::sync::{mpsc, oneshot};

/// A request for the thread of a model.
pub(crate) enum EngineJob {
    /// Answers to prompts.
    Answers(AnswersJob),
    /// Vectors or scores of texts.
    Vectors(VectorsJob),
    /// The end of all requests: they are cancelled.
    CancelAll,
}

/// Prompts, each with a request for every answer to it. The answers are numbered in this order.
pub(crate) struct AnswersJob {
    pub(crate) prompts: Vec<(Prompt<'static>, Vec<Request>)>,
    pub(crate) sink: mpsc::UnboundedSender<AnswerMessage>,
    pub(crate) admission: AdmittedRequests,
}

/// What happens to an answer with this number.
#[derive(Debug)]
pub(crate) enum AnswerMessage {
    /// The step with its first event began at this time.
    Began(usize, Instant),
    /// An event, and its time.
    Event(usize, Event, Instant),
    /// The end, and its time.
    Ended(usize, Box<Result<Outcome, GenerateError>>, Instant),
}

/// The vector of each text, or its error.
pub(crate) type TextVectors = Vec<Result<Vec<f32>, GenerateError>>;

/// Texts, whose vectors are sent together.
pub(crate) struct VectorsJob {
    pub(crate) texts: Vec<TextTokens>,
    pub(crate) options: EmbeddingOptions,
    pub(crate) tenant: u64,
    pub(crate) cancel: Arc<AtomicBool>,
    pub(crate) sink: oneshot::Sender<TextVectors>,
    pub(crate) admission: AdmittedRequests,
}

/// A guard: when it is dropped, the requests with its flag are cancelled. It is dropped with the connection of the client,
/// whatever the requests are doing.
#[derive(Debug, Default)]
pub(crate) struct CancelGuard(Arc<AtomicBool>);

impl CancelGuard {
    pub(crate) fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0)
    }
}

impl Drop for CancelGuard {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Requests that count among the open ones of a model until this is dropped.
#[derive(Debug)]
pub(crate) struct AdmittedRequests {
    open: Arc<AtomicUsize>,
    count: usize,
}

impl AdmittedRequests {
    /// Admits `count` requests if there are at most `most` open ones then; otherwise returns the number of open ones.
    pub(crate) fn within(most: usize, open: &Arc<AtomicUsize>, count: usize) -> Result<Self, usize> {
        let fits = |now: usize| now.checked_add(count).filter(|sum| *sum <= most);
        open.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits)?;
        Ok(Self { open: Arc::clone(open), count })
    }
}

impl Drop for AdmittedRequests {
    fn drop(&mut self) {
        self.open.fetch_sub(self.count, Ordering::Relaxed);
    }
}

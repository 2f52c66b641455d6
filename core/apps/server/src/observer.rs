//! [`RequestObserver`]: learns of requests and of the times of their answers, for example to export them as spans.

use crate::answer_times::AnswerTimes;
use axum::http::{HeaderMap, HeaderValue};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime};

/// Learns of each request. Its methods are called on the threads that speak HTTP, and must not block.
pub trait RequestObserver: Send + Sync {
    /// A request with these headers begins.
    fn begin(&self, headers: &HeaderMap) -> Box<dyn ObservedRequest>;
}

/// A request that is observed.
pub trait ObservedRequest: Send {
    /// The header `traceparent` of its answer.
    fn trace_parent(&self) -> Option<HeaderValue>;

    /// Its answer was sent, or its client is gone.
    fn end(&mut self, request: &FinishedRequest<'_>);
}

/// A request whose answer was sent.
#[derive(Debug)]
#[non_exhaustive]
pub struct FinishedRequest<'a> {
    /// Its id.
    pub id: &'a str,
    /// Its method.
    pub method: &'a str,
    /// Its route, with names in braces in place of what varies.
    pub route: &'a str,
    /// The status of its answer; 499 if the client was gone before the end.
    pub status: u16,
    /// When it began.
    pub start: SystemTime,
    /// When it ended.
    pub end: SystemTime,
    /// The same time as `start`, on the clock of the answers.
    pub started: Instant,
    /// Its answers, which may be cut off.
    pub answers: Vec<AnswerTimes>,
}

impl FinishedRequest<'_> {
    /// A time on the clock of the answers as a time of the day.
    pub fn time_of(&self, at: Instant) -> SystemTime {
        self.start + at.saturating_duration_since(self.started)
    }
}

tokio::task_local! {
    /// The answers of the request that a task answers.
    static CURRENT: Option<Arc<RequestAnswers>>;
}

/// The times of the answers to a request that is observed.
#[derive(Debug, Default)]
pub(crate) struct RequestAnswers(Mutex<Vec<AnswerTimes>>);

impl RequestAnswers {
    fn lock(&self) -> MutexGuard<'_, Vec<AnswerTimes>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The answers so far.
    pub(crate) fn all(&self) -> Vec<AnswerTimes> {
        self.lock().clone()
    }

    /// Work of a request whose answers are kept here, if they are observed.
    pub(crate) fn scope<T>(
        answers: Option<Arc<Self>>,
        work: impl Future<Output = T>,
    ) -> impl Future<Output = T> {
        CURRENT.scope(answers, work)
    }

    /// Work of the current request that goes on after its answer has begun.
    pub(crate) fn carry<T>(work: impl Future<Output = T>) -> impl Future<Output = T> {
        CURRENT.scope(CURRENT.try_with(Clone::clone).ok().flatten(), work)
    }
}

/// The places of answers among those of the current request, if it is observed.
pub(crate) struct AnswerPlaces(Option<(Arc<RequestAnswers>, usize)>);

impl AnswerPlaces {
    /// Places for these answers.
    pub(crate) fn of_current(answers: &[AnswerTimes]) -> Self {
        let current = CURRENT.try_with(Clone::clone).ok().flatten();
        Self(current.map(|current| {
            let mut all = current.lock();
            let first = all.len();
            all.extend_from_slice(answers);
            drop(all);
            (current, first)
        }))
    }

    /// Keeps the times of an answer.
    pub(crate) fn keep(&self, answer: usize, times: &AnswerTimes) {
        if let Some((all, first)) = &self.0
            && let Some(place) = all.lock().get_mut(first + answer)
        {
            place.clone_from(times);
        }
    }
}

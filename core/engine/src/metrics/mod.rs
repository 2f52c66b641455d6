//! [`Metrics`]: what a pipeline did and does, as numbers that a server exposes.
//!
//! They are told of requests and steps as any [`PipelineLifecycle`] is ([`crate::TextPipeline::add_lifecycle`]) and cost
//! nothing where they were not added. Every number is an atomic: they can be read while requests run.

mod histogram;
mod text;

pub use histogram::{Histogram, HistogramCounts};

use crate::hooks::{PipelineLifecycle, RequestEnd, RequestId, RequestKind, RequestStart, StepReport};
use crate::request::Outcome;
use crate::stats::SchedulerCounts;
use crate::stopping::StopReason;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// A number that only rises.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds to it.
    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    /// How much it is.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A number that rises and falls.
#[derive(Debug, Default)]
pub struct Gauge(AtomicU64);

impl Gauge {
    /// Sets it.
    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// One more.
    pub(crate) fn rise(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// One fewer.
    pub fn fall(&self) {
        // Never below zero: whoever falls has risen before.
        self.0.fetch_sub(1, Ordering::Relaxed);
    }

    /// How much it is.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Requests that ended, by how.
#[derive(Debug, Default)]
pub struct Outcomes {
    /// The model ended its answer.
    pub end: Counter,
    /// A stop string came up.
    pub stop: Counter,
    /// As many tokens as asked for, or the context is full.
    pub length: Counter,
    /// What was asked for was computed, and it was no answer: logits, vectors, scores, times.
    pub computed: Counter,
    /// Cancelled, with or without a part of an answer.
    pub cancelled: Counter,
    /// An error.
    pub failed: Counter,
    /// Whoever ran it let it go.
    pub abandoned: Counter,
}

/// Counters, gauges and histograms of the pipelines they were added to.
#[derive(Debug, Default)]
pub struct Metrics {
    /// Requests that ended, by how.
    pub requests: Outcomes,
    /// Requests under way, those that wait included.
    pub requests_open: Gauge,
    /// Of them, those that have not begun.
    pub requests_waiting: Gauge,
    /// Of them, those whose prompt is computed or that answer.
    pub requests_running: Gauge,
    /// Which run.
    running: Mutex<BTreeSet<RequestId>>,
    /// Tokens of prompts.
    pub prompt_tokens: Counter,
    /// Of them, those that were held already.
    pub cached_tokens: Counter,
    /// Tokens generated.
    pub generated_tokens: Counter,
    /// Sequences computed again because the rope regime changed.
    pub reprefills: Counter,
    /// Sequences that gave their state up for more urgent ones.
    pub preemptions: Counter,
    /// Of these times, those in which the state was kept in memory and put back.
    pub set_aside: Counter,
    /// Kept sequences that were given up for their room.
    pub evictions: Counter,
    /// Steps.
    pub steps: Counter,
    /// Rows of all steps.
    pub rows: Counter,
    /// Bytes of state that hold tokens, after the newest step.
    pub state_bytes: Gauge,
    /// Pages of state that hold tokens, after the newest step.
    pub pages_used: Gauge,
    /// Pages of state that are free, after the newest step.
    pub pages_free: Gauge,
    /// From the call to the beginning.
    pub queue_time: Histogram,
    /// From the call to the first token.
    pub time_to_first_token: Histogram,
    /// From a token to the next one.
    pub time_between_tokens: Histogram,
    /// From the beginning to the end of a step.
    pub step_time: Histogram,
}

impl Metrics {
    fn finished(&self, outcome: &Outcome) {
        let statistics = &outcome.statistics;
        let counter = match outcome.reason {
            StopReason::EndOfGeneration(_) => &self.requests.end,
            StopReason::StopString(_) => &self.requests.stop,
            StopReason::MaxTokens | StopReason::ContextFull => &self.requests.length,
            StopReason::Cancelled => &self.requests.cancelled,
        };
        counter.add(1);
        self.reprefills.add(statistics.reprefills as u64);
        self.queue_time.observe(statistics.queued);
        if let Some(first) = statistics.time_to_first_token {
            self.time_to_first_token.observe(first);
        }
    }
}

impl PipelineLifecycle for Metrics {
    fn begins(&self, _: RequestId, _: RequestKind) {
        self.requests_open.rise();
        self.requests_waiting.rise();
    }

    fn initialized(&self, request: RequestId, start: &RequestStart) {
        if self.running.lock().unwrap_or_else(PoisonError::into_inner).insert(request) {
            self.requests_waiting.fall();
            self.requests_running.rise();
        }
        self.prompt_tokens.add(start.prompt_tokens as u64);
        self.cached_tokens.add(start.cached_tokens as u64);
    }

    fn token(&self, _: RequestId, since: Option<Duration>) {
        self.generated_tokens.add(1);
        if let Some(since) = since {
            self.time_between_tokens.observe(since);
        }
    }

    fn stepped(&self, report: &StepReport) {
        self.state_bytes.set(report.state_bytes as u64);
        self.pages_used.set(report.pages_used as u64);
        self.pages_free.set(report.pages_free as u64);
        self.step_time.observe(report.time);
    }

    fn counted(&self, done: &SchedulerCounts) {
        self.steps.add(done.steps);
        self.rows.add(done.rows);
        self.preemptions.add(done.preemptions);
        self.set_aside.add(done.set_aside);
        self.evictions.add(done.evictions);
    }

    fn ends(&self, request: RequestId, end: &RequestEnd) {
        self.requests_open.fall();
        match self.running.lock().unwrap_or_else(PoisonError::into_inner).remove(&request) {
            true => self.requests_running.fall(),
            false => self.requests_waiting.fall(),
        }
        match end {
            RequestEnd::Finished(outcome) => self.finished(outcome),
            RequestEnd::Computed { .. } => self.requests.computed.add(1),
            RequestEnd::Failed(crate::error::GenerateError::Cancelled) => self.requests.cancelled.add(1),
            RequestEnd::Failed(_) => self.requests.failed.add(1),
            RequestEnd::Abandoned => self.requests.abandoned.add(1),
        }
    }
}

//! [`Metrics`]: what a pipeline did and does, as numbers that a server exposes.
//!
//! They are told of requests and steps as any [`PipelineLifecycle`] is ([`crate::TextPipeline::add_lifecycle`]) and cost
//! nothing where they were not added. Every number is an atomic: they can be read while requests run.

mod histogram;
mod text;

pub use histogram::{Histogram, HistogramCounts};

use crate::lifecycle::{PipelineLifecycle, RequestEnd, RequestId, RequestStart, StepReport};
use crate::request::{Outcome, StopReason};
use std::sync::atomic::{AtomicU64, Ordering};
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
    pub fn rise(&self) {
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
    /// Kept sequences that were given up for their room.
    pub evictions: Counter,
    /// Steps.
    pub steps: Counter,
    /// Rows of all steps.
    pub rows: Counter,
    /// Bytes of state that hold tokens, after the newest step.
    pub state_bytes: Gauge,
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
    fn begins(&self, _: RequestId) {
        self.requests_open.rise();
    }

    fn initialised(&self, _: RequestId, start: &RequestStart) {
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
        self.steps.add(report.done.steps);
        self.rows.add(report.done.rows);
        self.preemptions.add(report.done.preemptions);
        self.evictions.add(report.done.evictions);
        self.state_bytes.set(report.state_bytes as u64);
        self.step_time.observe(report.time);
    }

    fn ends(&self, _: RequestId, end: &RequestEnd) {
        self.requests_open.fall();
        match end {
            RequestEnd::Finished(outcome) => self.finished(outcome),
            RequestEnd::Failed(crate::error::GenerateError::Cancelled) => self.requests.cancelled.add(1),
            RequestEnd::Failed(_) => self.requests.failed.add(1),
            RequestEnd::Abandoned => self.requests.abandoned.add(1),
        }
    }
}

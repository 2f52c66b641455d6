//! [`Metrics`]: what a pipeline has done and is doing, as numbers that a server exposes.
//!
//! They are a [`PipelineLifecycle`], which is added with [`crate::TextPipeline::add_lifecycle`], and cost nothing
//! otherwise. All numbers are atomic, so they can be read while requests run.

mod histogram;
mod labels;
mod text;

use histogram::Histogram;

use crate::disk_cache::DiskCacheCounts;
use crate::hooks::{PipelineLifecycle, RequestEnd, RequestId, RequestKind, RequestStart, StepReport};
use crate::request::Outcome;
use crate::stats::SchedulerCounts;
use crate::stopping::StopReason;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// A number that only increases.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds to it.
    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    /// Its value.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A number that increases and decreases.
#[derive(Debug, Default)]
pub struct Gauge(AtomicU64);

impl Gauge {
    /// Sets it.
    pub(crate) fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// Increases it by one.
    pub(crate) fn rise(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Decreases it by one.
    pub(crate) fn fall(&self) {
        // Never below zero: every decrease follows an increase.
        self.0.fetch_sub(1, Ordering::Relaxed);
    }

    /// Its value.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Requests that have ended, by outcome.
#[derive(Debug, Default)]
pub struct Outcomes {
    /// The model ended its answer, or its constraint allows nothing more.
    pub end: Counter,
    /// A stop string appeared.
    pub stop: Counter,
    /// The maximum number of tokens is reached, or the context is full.
    pub length: Counter,
    /// A result other than an answer: logits, vectors, scores, times.
    pub computed: Counter,
    /// Cancelled, with or without a part of an answer.
    pub cancelled: Counter,
    /// An error after it had started.
    pub failed: Counter,
    /// An error before it could start: in its prompt or in its options.
    pub refused: Counter,
    /// The owner dropped it.
    pub abandoned: Counter,
}

/// Counters, gauges and histograms of the pipelines to which they were added.
#[derive(Debug, Default)]
pub struct Metrics {
    /// Requests that have ended, by outcome.
    pub requests: Outcomes,
    /// Requests that have not ended, including waiting ones.
    pub requests_open: Gauge,
    /// Those of them that have not started.
    pub requests_waiting: Gauge,
    /// Those of them that compute their prompt or their answer.
    pub requests_running: Gauge,
    /// The ids of those.
    running: Mutex<BTreeSet<RequestId>>,
    /// Tokens of prompts.
    pub prompt_tokens: Counter,
    /// Those of them whose state existed already.
    pub cached_tokens: Counter,
    /// Generated tokens.
    pub generated_tokens: Counter,
    /// Sequences that were computed again because the rope regime changed.
    pub reprefills: Counter,
    /// Preemptions of sequences by more urgent ones.
    pub preemptions: Counter,
    /// Preemptions in which the state was swapped out and in again.
    pub set_aside: Counter,
    /// Faults of stages after which states were computed again.
    pub restores: Counter,
    /// Sequences whose lost state was computed again.
    pub replays: Counter,
    /// Tokens whose state was lost and computed again.
    pub replayed_tokens: Counter,
    /// Cached sequences that were dropped for their memory.
    pub evictions: Counter,
    /// Prompts that started with state from the disk.
    pub disk_hits: Counter,
    /// Prompts of at least one block for which the disk had no longer prefix than memory.
    pub disk_misses: Counter,
    /// Tokens whose state was read from the disk.
    pub disk_tokens: Counter,
    /// Bytes that the disk cache read.
    pub disk_read_bytes: Counter,
    /// Bytes that the disk cache wrote.
    pub disk_written_bytes: Counter,
    /// Files of the disk cache that were damaged, blocks that it skipped, and its errors.
    pub disk_faults: Counter,
    /// Steps.
    pub steps: Counter,
    /// Rows of all steps.
    pub rows: Counter,
    /// Guesses of next tokens that steps computed.
    pub drafted: Counter,
    /// Those of them that became tokens of answers.
    pub accepted: Counter,
    /// Bytes of state that hold tokens, after the newest step.
    pub state_bytes: Gauge,
    /// Pages of state that hold tokens, after the newest step.
    pub pages_used: Gauge,
    /// Pages of state that are free, after the newest step.
    pub pages_free: Gauge,
    /// Time from the call to the start.
    pub(crate) queue_time: Histogram,
    /// Time from the call to the first token.
    pub(crate) time_to_first_token: Histogram,
    /// Time from a token to the next one.
    pub(crate) time_between_tokens: Histogram,
    /// Duration of a step.
    pub(crate) step_time: Histogram,
    /// Time of the constraint of an answer.
    pub(crate) constraint_time: Histogram,
}

impl Metrics {
    fn finished(&self, outcome: &Outcome) {
        let statistics = &outcome.statistics;
        let counter = match outcome.reason {
            StopReason::EndOfGeneration(_) | StopReason::Complete => &self.requests.end,
            StopReason::StopString(_) | StopReason::StopToken(_) | StopReason::Indentation => {
                &self.requests.stop
            }
            StopReason::MaxTokens | StopReason::ContextFull => &self.requests.length,
            StopReason::Cancelled => &self.requests.cancelled,
        };
        counter.add(1);
        self.reprefills.add(statistics.reprefills as u64);
        self.queue_time.observe(statistics.queued);
        if let Some(first) = statistics.time_to_first_token {
            self.time_to_first_token.observe(first);
        }
        if let Some(time) = statistics.constraint {
            self.constraint_time.observe(time);
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
        self.restores.add(done.restores);
        self.replays.add(done.replays);
        self.replayed_tokens.add(done.replayed_tokens);
        self.evictions.add(done.evictions);
        self.drafted.add(done.drafted);
        self.accepted.add(done.accepted);
    }

    fn disk_counted(&self, done: &DiskCacheCounts) {
        self.disk_hits.add(done.hits);
        self.disk_misses.add(done.misses);
        self.disk_tokens.add(done.read_tokens);
        self.disk_read_bytes.add(done.read_bytes);
        self.disk_written_bytes.add(done.written_bytes);
        self.disk_faults.add(done.damaged + done.skipped + done.faults);
    }

    fn ends(&self, request: RequestId, end: &RequestEnd) {
        self.requests_open.fall();
        let has_started = self.running.lock().unwrap_or_else(PoisonError::into_inner).remove(&request);
        match has_started {
            true => self.requests_running.fall(),
            false => self.requests_waiting.fall(),
        }
        match end {
            RequestEnd::Finished(outcome) => self.finished(outcome),
            RequestEnd::Computed { .. } => self.requests.computed.add(1),
            RequestEnd::Failed(crate::error::GenerateError::Cancelled) => self.requests.cancelled.add(1),
            RequestEnd::Failed(_) if has_started => self.requests.failed.add(1),
            RequestEnd::Failed(_) => self.requests.refused.add(1),
            RequestEnd::Abandoned => self.requests.abandoned.add(1),
        }
    }
}

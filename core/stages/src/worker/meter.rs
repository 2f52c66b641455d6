//! [`StageMeter`]: what a stage has computed.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// What a stage has computed since it was started; read while it computes.
#[derive(Debug, Default)]
pub struct StageMeter {
    steps: AtomicU64,
    rows: AtomicU64,
    single_steps: AtomicU64,
    single_micros: AtomicU64,
    requests: AtomicU64,
    is_computing: AtomicBool,
}

/// The counts of a [`StageMeter`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StageCounts {
    /// Steps.
    pub steps: u64,
    /// Rows of these steps.
    pub rows: u64,
    /// Requests whose states the stage has.
    pub requests: u64,
    /// Whether a step is computed now.
    pub is_computing: bool,
    /// Mean time of a step of one row; `None` before the first one.
    pub single: Option<Duration>,
}

impl StageMeter {
    /// The counts.
    pub fn counts(&self) -> StageCounts {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let single = read(&self.single_micros).checked_div(read(&self.single_steps));
        StageCounts {
            steps: read(&self.steps),
            rows: read(&self.rows),
            requests: read(&self.requests),
            is_computing: self.is_computing.load(Ordering::Relaxed),
            single: single.map(Duration::from_micros),
        }
    }

    pub(super) fn begin(&self) {
        self.is_computing.store(true, Ordering::Relaxed);
    }

    /// A step of `rows` rows has ended after these microseconds.
    pub(super) fn end(&self, rows: u32, micros: u64) {
        self.is_computing.store(false, Ordering::Relaxed);
        self.rows.fetch_add(u64::from(rows), Ordering::Relaxed);
        if rows == 1 {
            self.single_micros.fetch_add(micros, Ordering::Relaxed);
            self.single_steps.fetch_add(1, Ordering::Relaxed);
        }
        self.steps.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn set_requests(&self, requests: usize) {
        self.requests.store(requests as u64, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_rows_are_timed_and_all_rows_counted() {
        let meter = StageMeter::default();
        assert_eq!(meter.counts().single, None);
        meter.begin();
        assert!(meter.counts().is_computing);
        meter.end(1, 30);
        meter.end(1, 10);
        meter.end(8, 1000);
        meter.set_requests(2);
        let expected = StageCounts {
            steps: 3,
            rows: 10,
            requests: 2,
            is_computing: false,
            single: Some(Duration::from_micros(20)),
        };
        assert_eq!(meter.counts(), expected);
    }
}

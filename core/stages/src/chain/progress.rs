//! [`Progress`]: how far each stage is.

use crate::link::Done;
use crate::times::StageTime;
use std::collections::VecDeque;

/// Times of steps that are kept.
const TIMES: usize = 4096;

/// How far each stage is, as they say themselves.
pub(super) struct Progress {
    /// By stage, the step it was done with last.
    done: Vec<u32>,
    times: VecDeque<StageTime>,
}

impl Progress {
    /// So many stages that have done nothing.
    pub(super) fn new(stages: usize) -> Self {
        Self { done: vec![0; stages], times: VecDeque::new() }
    }

    /// A stage has dealt with a frame.
    pub(super) fn note(&mut self, Done { header, began, ended }: Done) {
        let Some(done) = self.done.get_mut(usize::from(header.stage)) else { return };
        *done = (*done).max(header.step);
        // Frames without rows are computed in no time.
        if header.step == 0 || header.rows == 0 {
            return;
        }
        if self.times.len() >= TIMES {
            self.times.pop_front();
        }
        let (stage, step, rows) = (header.stage, header.step, header.rows);
        tracing::debug!(stage, step, rows, began, ended, "stage computed");
        self.times.push_back(StageTime { stage, step, rows, began, ended });
    }

    /// The first stage that is not done with a step; the last one where all are.
    pub(super) fn behind(&self, step: u32) -> usize {
        self.done.iter().position(|done| *done < step).unwrap_or(self.done.len().saturating_sub(1))
    }

    /// When stages computed which steps, the newest last.
    pub(super) fn times(&self) -> Vec<StageTime> {
        self.times.iter().copied().collect()
    }
}

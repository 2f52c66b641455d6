//! [`StageProgress`]: the last step that each stage has finished.

use crate::link::Acknowledgment;
use crate::message::times::StageTime;
use std::collections::VecDeque;

/// Most times of steps that are kept.
const TIMES: usize = 4096;

/// The last step that each stage has finished, by its acknowledgments.
pub(super) struct StageProgress {
    /// The last finished step of each stage.
    done: Vec<u32>,
    times: VecDeque<StageTime>,
}

impl StageProgress {
    /// The progress of stages that have finished no step.
    pub(super) fn new(stages: usize) -> Self {
        Self { done: vec![0; stages], times: VecDeque::new() }
    }

    /// Notes an acknowledgment.
    pub(super) fn note(&mut self, Acknowledgment { header, began, ended }: Acknowledgment) {
        let Some(done) = self.done.get_mut(usize::from(header.stage)) else { return };
        *done = (*done).max(header.step);
        // Frames without rows take no time.
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

    /// The first stage that has not finished a step; the last stage if all have.
    pub(super) fn behind(&self, step: u32) -> usize {
        self.done.iter().position(|done| *done < step).unwrap_or(self.done.len().saturating_sub(1))
    }

    /// The times of steps, the newest last.
    pub(super) fn times(&self) -> Vec<StageTime> {
        self.times.iter().copied().collect()
    }
}

//! Answers of steps, which may arrive while the chain waits for something else.

use super::{ChainHead, POLL_INTERVAL, WaitContext};
use crate::chain::session::ChainSession;
use crate::fault::{FaultKind, StageFault};
use crate::link::sooner;
use menagerie_model::Cancellation;
use std::collections::HashMap;
use std::time::Instant;

/// The steps whose answers are awaited, by number, and the answers that have arrived.
#[derive(Default)]
pub(super) struct AwaitedAnswers(HashMap<u32, Option<Vec<f32>>>);

impl AwaitedAnswers {
    /// The answer of this step will be asked for.
    pub(super) fn note_step(&mut self, step: u32) {
        self.0.insert(step, None);
    }

    /// Keeps an answer that has arrived, if it is awaited.
    pub(super) fn arrived(&mut self, step: u32, values: Vec<f32>) {
        if let Some(answer) = self.0.get_mut(&step) {
            *answer = Some(values);
        }
    }

    /// The answer of a step if it has arrived; it is then no longer awaited.
    fn take(&mut self, step: u32) -> Option<Vec<f32>> {
        let values = self.0.get_mut(&step)?.take()?;
        self.0.remove(&step);
        Some(values)
    }

    /// The answer of this step will not be asked for.
    pub(super) fn forget(&mut self, step: u32) {
        self.0.remove(&step);
    }
}

impl ChainHead {
    /// Waits for the answer of a step that was sent in this epoch of its request.
    pub(in crate::chain) fn finish(
        &mut self,
        step: u32,
        session: &ChainSession,
        epoch: u32,
        cancelled: Cancellation,
    ) -> Result<Vec<f32>, StageFault> {
        let wait = WaitContext { by: self.by(), session: Some((session, epoch)), cancelled };
        let answer = self.answer(step, &wait);
        self.answers.forget(step);
        answer
    }

    fn answer(&mut self, step: u32, wait: &WaitContext) -> Result<Vec<f32>, StageFault> {
        loop {
            self.check_epoch(wait)?;
            if let Some(values) = self.answers.take(step) {
                return Ok(values);
            }
            let arrival = self.next_arrival(sooner(wait.by, POLL_INTERVAL), wait)?;
            if arrival.is_none() && Instant::now() >= wait.by {
                return Err(self.timeout(wait));
            }
            if wait.cancelled.is_requested() {
                // Its answer is ignored when it arrives; what it wrote is written again or restored.
                return Err(self.fault(FaultKind::Cancelled, 0, "cancelled"));
            }
        }
    }

    /// Discards the answer of a step.
    pub(in crate::chain) fn give_up(&mut self, step: u32) {
        self.answers.forget(step);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_kept_in_any_order_and_only_if_they_are_awaited() {
        let mut answers = AwaitedAnswers::default();
        answers.note_step(4);
        answers.note_step(5);
        answers.arrived(5, vec![5.0]);
        answers.arrived(3, vec![3.0]);
        assert_eq!((answers.take(3), answers.take(4)), (None, None));
        answers.arrived(4, vec![4.0]);
        assert_eq!((answers.take(4), answers.take(4)), (Some(vec![4.0]), None));
        answers.forget(5);
        assert_eq!(answers.take(5), None);
        answers.arrived(5, vec![5.0]);
        assert!(answers.0.is_empty(), "nothing is kept for a step that was given up");
    }
}

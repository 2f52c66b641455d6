//! [`SentStep`]: a step on its way through the stages.

use super::head::ChainHead;
use super::session::{ChainSession, SequenceFault};
use crate::fault::StageFault;
use crate::message::gather::GatherSubject;
use menagerie_model::{
    Cancellation, LayerHook, ModelError, Rows, SequenceFailure, SequenceId, StatePool, StepEnding,
    StepInFlight,
};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// A step on its way through the stages.
pub(super) struct SentStep {
    pub(super) session: Arc<ChainSession>,
    pub(super) epoch: u32,
    /// The chain's end of the links. It must not keep them open, because the stages end when they are closed.
    pub(super) head: Weak<Mutex<ChainHead>>,
    /// The number of the step if it is to be answered.
    pub(super) answered_step: Option<u32>,
    /// Its sequences and the positions of their first rows.
    pub(super) sequences: Vec<(SequenceId, usize)>,
    /// Columns of its result.
    pub(super) width: usize,
    /// Numbers of the hooks whose copies are asked for their data after the step.
    pub(super) followed: Vec<(u32, Arc<dyn LayerHook>)>,
}

/// A sequence of a step that failed.
pub(super) struct FailedSequence {
    /// Its index in the step.
    pub(super) index: usize,
    /// Position of the first row that is not usable.
    pub(super) position: usize,
    pub(super) fault: StageFault,
}

impl From<FailedSequence> for SequenceFailure {
    fn from(FailedSequence { index, position, fault }: FailedSequence) -> Self {
        Self { index, position, error: fault.into() }
    }
}

impl SentStep {
    /// Waits for the answer, if the step has one: its rows, and the sequences that failed in it or in earlier steps that were
    /// not waited for.
    pub(super) fn wait(
        &mut self,
        states: &StatePool,
        cancelled: Cancellation,
    ) -> Result<(Vec<f32>, Vec<FailedSequence>), ModelError> {
        let values = self.values(cancelled);
        let is_cancelled = matches!(values, Err(ModelError::Cancelled));
        if values.is_err() && !is_cancelled && self.session.epoch() == self.epoch {
            // The stages may not have finished what the chain believes to be finished.
            self.session.lose(None);
        }
        Ok((values?, self.failed(states)))
    }

    fn values(&mut self, cancelled: Cancellation) -> Result<Vec<f32>, ModelError> {
        let Some(head) = self.head.upgrade() else {
            let reason = "the model whose stages compute the step was closed; open it again";
            return Err(ModelError::State(reason.to_owned()));
        };
        let mut head = head.lock().unwrap_or_else(PoisonError::into_inner);
        let values = match self.answered_step.take() {
            None => Vec::new(),
            Some(step) => {
                let first = self.sequences.first().map_or(0, |(_, first)| *first);
                let finished = head.finish(step, &self.session, self.epoch, cancelled);
                finished.map_err(|fault| fault.seen_from(self.session.number, first))?
            }
        };
        for (number, hook) in &self.followed {
            if let Some(own) = hook.serializable() {
                head.gather(GatherSubject::Hook(*number), &mut |_, piece| own.take(piece))?;
            }
        }
        Ok(values)
    }

    /// The sequences of the step with a fault that has not been reported.
    fn failed(&self, states: &StatePool) -> Vec<FailedSequence> {
        let sequences: Vec<SequenceId> = self.sequences.iter().map(|(sequence, _)| *sequence).collect();
        let taken = self.session.take_faults(&sequences, |sequence| states.len(sequence).is_ok());
        let failed = |(index, SequenceFault { position, fault, .. }): (usize, SequenceFault)| {
            let fault = fault.seen_from(self.session.number, self.sequences[index].1);
            FailedSequence { index, position, fault }
        };
        taken.into_iter().map(failed).collect()
    }
}

impl StepInFlight for SentStep {
    fn finish(mut self: Box<Self>, ending: &mut StepEnding) -> Result<Rows, ModelError> {
        let (values, failed) = self.wait(ending.states, ending.cancelled)?;
        ending.failures.extend(failed.into_iter().map(SequenceFailure::from));
        ending.compute.backend.upload(values, self.width)
    }
}

impl Drop for SentStep {
    /// Discards the answer of a step that nobody waits for.
    fn drop(&mut self) {
        if let (Some(step), Some(head)) = (self.answered_step, self.head.upgrade()) {
            head.lock().unwrap_or_else(PoisonError::into_inner).give_up(step);
        }
    }
}

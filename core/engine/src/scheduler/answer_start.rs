//! Answering again: the point where an answer began, and the row of logits there.

use super::Scheduler;
use crate::error::GenerateError;
use crate::sequence::{AnswerStart, Sequence};
use std::sync::Arc;

impl Scheduler {
    /// Notes that an answer begins where the sequence is, with these logits: another one to the same prompt then computes no
    /// row of the prompt again. What windows show here is kept as long as nobody else needs its pages.
    ///
    /// # Errors
    /// What the pool reports.
    pub(crate) fn note_answer_start(
        &mut self,
        sequence: &mut Sequence,
        logits: &[f32],
    ) -> Result<(), GenerateError> {
        let tokens = sequence.computed;
        if sequence.answer.as_ref().is_some_and(|start| start.tokens == tokens) {
            return Ok(());
        }
        if self.pool.has_windows() {
            self.keep_windows(sequence)?;
        }
        sequence.answer = Some(Box::new(AnswerStart { tokens, logits: logits.to_vec(), ready: false }));
        Ok(())
    }

    /// Keeps what windows show now, and nothing of what they showed before.
    fn keep_windows(&mut self, sequence: &mut Sequence) -> Result<(), GenerateError> {
        super::memory::release(&mut self.pool, sequence)?;
        if !self.engine.is_recurrent() {
            sequence.snapshots.clear();
        }
        let last = sequence.snapshots.last().filter(|last| last.tokens() == sequence.computed);
        let point = match last {
            Some(last) => Arc::clone(last),
            None => {
                let point = Arc::new(self.pool.snapshot(sequence.id)?);
                sequence.snapshots.push(Arc::clone(&point));
                point
            }
        };
        self.pool.retain(sequence.id, &point)?;
        sequence.retains = true;
        Ok(())
    }
}

//! Remembers where an answer starts, with the logits there, so that another answer to the same prompt needs no
//! computation.

use super::Scheduler;
use crate::error::GenerateError;
use crate::sequence::{AnswerStart, Sequence};
use std::sync::Arc;

impl Scheduler {
    /// Stores the position of the sequence and the logits there as the start of an answer. Another answer to the same
    /// prompt then computes no row of the prompt. The rows that windowed layers see here are kept while no other
    /// sequence needs their pages.
    ///
    /// # Errors
    /// An error of the pool.
    pub(crate) fn note_answer_start(
        &mut self,
        sequence: &mut Sequence,
        logits: &[f32],
    ) -> Result<(), GenerateError> {
        let tokens = sequence.computed;
        if sequence.answer.as_ref().is_some_and(|start| start.tokens == tokens) || self.has_lost(sequence) {
            return Ok(());
        }
        if self.pool.has_windows() {
            self.keep_windows(sequence)?;
        }
        sequence.answer = Some(Box::new(AnswerStart { tokens, logits: logits.to_vec(), ready: false }));
        Ok(())
    }

    /// Keeps the rows that windowed layers see now, and drops those of earlier answers.
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

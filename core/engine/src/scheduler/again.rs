//! Answering again: the point where an answer began, and the row of logits there.

use super::Scheduler;
use crate::error::GenerateError;
use crate::output::{OwnRows, Step, StepPart, StepRows};
use crate::sequence::Sequence;
use std::sync::Arc;

/// Where an answer of a sequence began.
#[derive(Debug)]
pub(crate) struct AnswerStart {
    /// Tokens of the prompt.
    tokens: usize,
    /// Logits `[V]` after the last of them.
    logits: Vec<f32>,
    /// Whether the sequence is there again, and nobody took the logits yet.
    ready: bool,
}

impl Scheduler {
    /// Notes that an answer begins where the sequence is, with these logits: another one to the same prompt then computes no
    /// row of the prompt again. What windows show here is kept as long as nobody else needs its pages.
    ///
    /// # Errors
    /// What the pool reports.
    pub(crate) fn answer_begins(
        &mut self,
        sequence: &mut Sequence,
        logits: &[f32],
    ) -> Result<(), GenerateError> {
        let tokens = sequence.held;
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
        super::room::release(&mut self.pool, sequence)?;
        if !self.engine.is_recurrent() {
            sequence.snapshots.clear();
        }
        let last = sequence.snapshots.last().filter(|last| last.tokens() == sequence.held);
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

impl Sequence {
    /// Whether an answer to this very prompt began here.
    pub(crate) fn answered(&self, prompt: &[u32]) -> bool {
        self.answer.as_ref().is_some_and(|start| start.tokens == prompt.len())
            && self.tokens().starts_with(prompt)
    }

    /// Says that the sequence holds a prompt as far as it could; where that is all of it, its logits are there.
    pub(crate) fn stands_at(&mut self, prompt: usize) {
        if let Some(start) = &mut self.answer {
            start.ready = start.tokens == prompt && self.held == prompt;
        }
    }

    /// Forgets where its answer began if that is not held any more.
    pub(crate) fn went_back(&mut self) {
        let held = self.held;
        self.answer.take_if(|start| start.tokens > held);
    }

    /// The logits after its prompt, where they are there without a step; once.
    pub(crate) fn known_logits(&mut self, index: usize) -> Option<Step> {
        let start = self.answer.as_mut().filter(|start| start.ready)?;
        start.ready = false;
        let part = StepPart { index, result: Ok(OwnRows::LastLogits(0..1)) };
        Some(Step::new(StepRows::of_one(start.logits.clone()), vec![part]))
    }
}

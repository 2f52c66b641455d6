//! Tokens that follow a prompt one by one, or several in a step if they were guessed.

use crate::error::GenerateError;
use crate::scheduler::Scheduler;
use crate::sequence::{LogitRows, Sequence};
use menagerie_model::InferenceStep;
use std::ops::Range;

impl Scheduler {
    /// Adds a token, which the next step computes, unless the newest step has computed it as a guess. Returns whether
    /// the whole sequence is computed again: if the token exceeds the limit of the short rope regime, all keys get the
    /// long one, as in HF transformers.
    ///
    /// # Errors
    /// The context is full, the token is past the vocabulary, the model sees later tokens, or the sequence must be
    /// computed again in one step and is longer than a step.
    pub fn push(&mut self, sequence: &mut Sequence, token: u32) -> Result<bool, GenerateError> {
        if sequence.accept_drafted(token) {
            // Its row was computed with the token before it.
            let is_settled = sequence.draft.start.is_none();
            if is_settled {
                self.pool.advance(sequence.id, 1)?;
            }
            sequence.computed += 1;
            if is_settled {
                // A snapshot of windowed states may belong here, in the middle of a step.
                self.write_blocks(sequence);
            }
            self.counts.accepted += 1;
            self.costs.accepted();
            return Ok(false);
        }
        self.settle(sequence)?;
        self.engine.check_tokens(&[token])?;
        let total = sequence.tokens.len() + 1;
        if total > self.engine.context {
            return Err(self.engine.too_long(total));
        }
        if self.engine.model.is_bidirectional() {
            return Err(GenerateError::LooksAhead);
        }
        let regime = self.engine.regime_of(total);
        let again = regime != sequence.regime && sequence.reached() > 0;
        if again && total > self.step_tokens && self.engine.takes_whole_prompts() {
            return Err(GenerateError::Chunked { tokens: total, chunk: self.step_tokens });
        }
        sequence.regime = regime;
        if again {
            let tokens = std::mem::take(&mut sequence.tokens);
            self.rewind(sequence, 0)?;
            sequence.tokens = tokens;
            (sequence.prompt, sequence.cached, sequence.logit_rows) = (total, 0, LogitRows::Last);
            sequence.reprefills += 1;
        }
        sequence.tokens.push(token);
        Ok(again)
    }
}

impl Sequence {
    /// Whether its next token is decoded: its prompt is computed.
    pub(crate) fn is_decoding(&self) -> bool {
        self.uncomputed() > 0 && self.reached() >= self.prompt
    }

    /// The step of the next `rows` tokens after the prompt. Logits are needed after the last pending token: the tokens
    /// before it were part of the sequence already, and their rows are computed again.
    pub(crate) fn decode_step(&self, rows: usize) -> (InferenceStep, Range<usize>) {
        let first = self.pending().saturating_sub(1).min(rows);
        (InferenceStep::Decode { current_position: self.computed }, first..rows)
    }
}

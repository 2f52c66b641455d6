//! Tokens that follow a prompt one by one.

use crate::error::GenerateError;
use crate::scheduler::Scheduler;
use crate::sequence::{LogitRows, Sequence};
use menagerie_model::InferenceStep;
use std::ops::Range;

impl Scheduler {
    /// Adds a token to be fed back by the next step. Gives whether everything is computed again: where the token takes the
    /// sequence over the limit of the short rope regime, the keys get the long one, as in HF transformers.
    ///
    /// # Errors
    /// A full context, a token past the vocabulary, a model that looks ahead, a regime that wants more in one step than it has.
    pub fn push(&mut self, sequence: &mut Sequence, token: u32) -> Result<bool, GenerateError> {
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
            self.go_back(sequence, 0)?;
            sequence.tokens = tokens;
            (sequence.prompt, sequence.cached, sequence.logit_rows) = (total, 0, LogitRows::Last);
            sequence.reprefills += 1;
        }
        sequence.tokens.push(token);
        Ok(again)
    }
}

impl Sequence {
    /// Whether its next token is decoded: its prompt is held.
    pub(crate) fn is_decoding(&self) -> bool {
        self.uncomputed() > 0 && self.reached() >= self.prompt
    }

    /// The step of the next `rows` tokens after the prompt, all of which want logits.
    pub(crate) fn decode_step(&self, rows: usize) -> (InferenceStep, Range<usize>) {
        (InferenceStep::Decode { current_position: self.computed }, 0..rows)
    }
}

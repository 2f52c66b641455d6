//! Prompts: what of one is held already, and its chunks.

use crate::error::GenerateError;
use crate::scheduler::Scheduler;
use crate::sequence::{LogitRows, Sequence};
use menagerie_model::InferenceStep;
use std::ops::Range;

impl Scheduler {
    /// Makes the sequence be `prompt`, to be computed by the next steps as far as its state is not held.
    ///
    /// The rope regime is that of the whole prompt; a held prefix of another regime is dropped.
    ///
    /// # Errors
    /// An empty prompt, one that does not fit, a token past the vocabulary; the sequence is then as it was.
    pub fn begin(
        &mut self,
        sequence: &mut Sequence,
        prompt: &[u32],
        logit_rows: LogitRows,
    ) -> Result<(), GenerateError> {
        self.engine.check_prompt(prompt)?;
        let whole = self.engine.takes_whole_prompts();
        if whole && prompt.len() > self.step_tokens {
            return Err(GenerateError::Chunked { tokens: prompt.len(), chunk: self.step_tokens });
        }
        let regime = self.engine.regime_of(prompt.len());
        sequence.chunk_boundaries.clear();
        sequence.snapshot_positions.clear();
        let fresh = whole || logit_rows != LogitRows::Last || regime != sequence.regime;
        let kept = if fresh { 0 } else { sequence.computed_prefix_len(prompt) };
        // What was generated then is part of the prompt now, which a hook of one phase makes something else of.
        let kept = if self.is_uniform() { kept } else { kept.min(sequence.prompt) };
        let again = !fresh && sequence.answered(prompt);
        self.go_back(sequence, if again { prompt.len() } else { kept })?;
        sequence.stands_at(prompt.len());
        sequence.tokens.extend_from_slice(&prompt[sequence.computed..]);
        (sequence.prompt, sequence.cached) = (prompt.len(), sequence.computed);
        (sequence.logit_rows, sequence.regime) = (logit_rows, regime);
        Ok(())
    }
}

impl Sequence {
    /// The step of the next `rows` tokens of the prompt, and which of its rows want logits.
    pub(crate) fn prefill_step(&self, rows: usize) -> (InferenceStep, Range<usize>) {
        let start = self.computed;
        let is_final_chunk = start + rows == self.prompt;
        let step = InferenceStep::Prefill {
            chunk_tokens: rows,
            chunk_start_position: start,
            total_prompt_tokens: self.prompt,
            is_final_chunk,
        };
        let from = match self.logit_rows {
            LogitRows::All => 0,
            LogitRows::From(first) => first.saturating_sub(start).min(rows),
            LogitRows::Last if is_final_chunk => rows - 1,
            LogitRows::Last => rows,
        };
        (step, from..rows)
    }

    /// Tokens that `prompt` begins with and that are held; never all of it, since its last row wants logits.
    pub(crate) fn computed_prefix_len(&self, prompt: &[u32]) -> usize {
        shared_prefix_len(self.tokens(), prompt)
    }

    /// The same once its pending tokens are held.
    pub(crate) fn future_prefix_len(&self, prompt: &[u32]) -> usize {
        shared_prefix_len(&self.tokens, prompt)
    }

    /// Makes a chunk end at `len` tokens.
    pub(crate) fn add_chunk_boundary(&mut self, len: usize) {
        if len > self.computed
            && len < self.tokens.len()
            && let Err(place) = self.chunk_boundaries.binary_search(&len)
        {
            self.chunk_boundaries.insert(place, len);
        }
    }

    /// Rows until the next cut or border; at most `rows`.
    pub(crate) fn rows_until_boundary(&self, rows: usize) -> usize {
        let reached = self.reached();
        let ends = self.chunk_boundaries.iter().chain(&self.snapshot_positions).filter(|end| **end > reached);
        ends.map(|end| end - reached).min().map_or(rows, |left| left.min(rows))
    }
}

/// Tokens of `prompt` that need not be computed where `held` are.
pub(crate) fn shared_prefix_len(held: &[u32], prompt: &[u32]) -> usize {
    let common = held.iter().zip(prompt).take_while(|(held, new)| held == new).count();
    common.min(prompt.len().saturating_sub(1))
}

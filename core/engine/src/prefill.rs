//! Prompts: what of one is held already, and its chunks.

use crate::error::GenerateError;
use crate::scheduler::Scheduler;
use crate::sequence::{Sequence, Wanted};
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
        wanted: Wanted,
    ) -> Result<(), GenerateError> {
        self.engine.check_prompt(prompt)?;
        let whole = self.engine.takes_whole_prompts();
        if whole && prompt.len() > self.step_tokens {
            return Err(GenerateError::Chunked { tokens: prompt.len(), chunk: self.step_tokens });
        }
        let regime = self.engine.regime_of(prompt.len());
        sequence.cuts.clear();
        sequence.borders.clear();
        let fresh = whole || wanted != Wanted::Last || regime != sequence.regime;
        let kept = if fresh { 0 } else { sequence.common_prefix(prompt) };
        // What was generated then is part of the prompt now, which a hook of one phase makes something else of.
        let kept = if self.is_uniform() { kept } else { kept.min(sequence.prompt) };
        let again = !fresh && sequence.answered(prompt);
        self.go_back(sequence, if again { prompt.len() } else { kept })?;
        sequence.stands_at(prompt.len());
        sequence.tokens.extend_from_slice(&prompt[sequence.held..]);
        (sequence.prompt, sequence.cached) = (prompt.len(), sequence.held);
        (sequence.wanted, sequence.regime) = (wanted, regime);
        Ok(())
    }
}

impl Sequence {
    /// The step of the next `rows` tokens of the prompt, and which of its rows want logits.
    pub(crate) fn prefill_step(&self, rows: usize) -> (InferenceStep, Range<usize>) {
        let start = self.held;
        let is_final_chunk = start + rows == self.prompt;
        let step = InferenceStep::Prefill {
            chunk_tokens: rows,
            chunk_start_position: start,
            total_prompt_tokens: self.prompt,
            is_final_chunk,
        };
        let from = match self.wanted {
            Wanted::All => 0,
            Wanted::From(first) => first.saturating_sub(start).min(rows),
            Wanted::Last if is_final_chunk => rows - 1,
            Wanted::Last => rows,
        };
        (step, from..rows)
    }

    /// Tokens that `prompt` begins with and that are held; never all of it, since its last row wants logits.
    pub(crate) fn common_prefix(&self, prompt: &[u32]) -> usize {
        shared(self.tokens(), prompt)
    }

    /// The same once its pending tokens are held.
    pub(crate) fn prospect(&self, prompt: &[u32]) -> usize {
        shared(&self.tokens, prompt)
    }

    /// Makes a chunk end at `len` tokens.
    pub(crate) fn cut_at(&mut self, len: usize) {
        if len > self.held
            && len < self.tokens.len()
            && let Err(place) = self.cuts.binary_search(&len)
        {
            self.cuts.insert(place, len);
        }
    }

    /// Rows until the next cut or border; at most `rows`.
    pub(crate) fn up_to_cut(&self, rows: usize) -> usize {
        let reached = self.reached();
        let ends = self.cuts.iter().chain(&self.borders).filter(|end| **end > reached);
        ends.map(|end| end - reached).min().map_or(rows, |left| left.min(rows))
    }
}

/// Tokens of `prompt` that need not be computed where `held` are.
pub(crate) fn shared(held: &[u32], prompt: &[u32]) -> usize {
    let common = held.iter().zip(prompt).take_while(|(held, new)| held == new).count();
    common.min(prompt.len().saturating_sub(1))
}

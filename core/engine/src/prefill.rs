//! Prompts: the prefix whose state exists already, and the chunks of the rest.

use crate::error::GenerateError;
use crate::request::Request;
use crate::scheduler::Scheduler;
use crate::sequence::{LogitRows, Sequence};
use menagerie_model::InferenceStep;
use std::ops::Range;

/// Rows of a prompt in a step that a lens reads.
const LENS_ROWS: usize = 8;

impl Scheduler {
    /// Makes the sequence hold `prompt`. The next steps compute the part whose state does not exist yet; `logit_rows`
    /// are the rows whose logits are needed.
    ///
    /// The rope regime is that of the whole prompt; a prefix of another regime is dropped.
    ///
    /// # Errors
    /// The prompt is empty, does not fit, or has a token past the vocabulary; the sequence is then unchanged.
    pub fn begin(
        &mut self,
        sequence: &mut Sequence,
        prompt: &[u32],
        logit_rows: LogitRows,
    ) -> Result<(), GenerateError> {
        let reusable = if logit_rows == LogitRows::Last { usize::MAX } else { 0 };
        self.begin_within(sequence, prompt, logit_rows, reusable)?;
        (sequence.is_scored, sequence.replays, sequence.lens) = (false, false, None);
        Ok(())
    }

    /// As [`Self::begin`] for the answer to a request, which may report the tokens of its prompt or have a lens.
    ///
    /// # Errors
    /// As [`Self::begin`].
    pub(crate) fn begin_request(
        &mut self,
        sequence: &mut Sequence,
        prompt: &[u32],
        request: &Request,
    ) -> Result<(), GenerateError> {
        // The row before a token predicts it, and the last row predicts the answer.
        let first = request.prompt_logprobs.map(|scored| scored.min(prompt.len()).saturating_sub(1));
        let read = request.lens.as_ref().map(|lens| lens.first_position());
        let reusable = first.into_iter().chain(read).min().unwrap_or(usize::MAX);
        self.engine.check_prompt(prompt)?;
        let blocks = self.read_blocks(sequence, prompt, reusable)?;
        let logit_rows = first.map_or(LogitRows::Last, LogitRows::From);
        self.begin_within(sequence, prompt, logit_rows, reusable)?;
        sequence.is_scored = first.is_some();
        self.set_lens(sequence, request);
        (sequence.replays, sequence.losses) = (true, 0);
        if let Some((blocks, read)) = blocks {
            sequence.from_disk = read.min(sequence.computed);
            sequence.blocks = Some(Box::new(blocks));
        }
        Ok(())
    }

    /// Lets the lens of a request read the sequence. Its rows are computed in small steps, because each takes the head once
    /// for every layer, and other requests wait for a step.
    fn set_lens(&self, sequence: &mut Sequence, request: &Request) {
        sequence.lens.clone_from(&request.lens);
        let Some(lens) = request.lens.as_ref().filter(|_| !self.engine.takes_whole_prompts()) else { return };
        let ends = (lens.first_position()..sequence.prompt).step_by(LENS_ROWS);
        ends.for_each(|end| sequence.add_chunk_boundary(end));
    }

    /// [`Self::begin`]; at most `reusable` tokens of the sequence's state are kept.
    fn begin_within(
        &mut self,
        sequence: &mut Sequence,
        prompt: &[u32],
        logit_rows: LogitRows,
        reusable: usize,
    ) -> Result<(), GenerateError> {
        self.engine.check_prompt(prompt)?;
        let whole = self.engine.takes_whole_prompts();
        if whole && prompt.len() > self.step_tokens {
            return Err(GenerateError::Chunked { tokens: prompt.len(), chunk: self.step_tokens });
        }
        let regime = self.engine.regime_of(prompt.len());
        sequence.chunk_boundaries.clear();
        sequence.snapshot_positions.clear();
        (sequence.blocks, sequence.from_disk) = (None, 0);
        let fresh = whole || regime != sequence.regime;
        let kept = if fresh { 0 } else { sequence.computed_prefix_len(prompt).min(reusable) };
        // Generated tokens are part of the prompt now. If prompt rows and generated rows differ, they are computed
        // again.
        let kept = if self.is_uniform() { kept } else { kept.min(sequence.prompt) };
        let again =
            !fresh && logit_rows == LogitRows::Last && reusable >= prompt.len() && sequence.answered(prompt);
        self.rewind(sequence, if again { prompt.len() } else { kept })?;
        sequence.set_ready_at(prompt.len());
        sequence.tokens.extend_from_slice(&prompt[sequence.computed..]);
        (sequence.prompt, sequence.cached) = (prompt.len(), sequence.computed);
        (sequence.logit_rows, sequence.regime) = (logit_rows, regime);
        Ok(())
    }
}

impl Sequence {
    /// The step of the next `rows` tokens of the prompt, and which of these rows produce logits.
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
            // After a preemption, tokens of the answer may follow the prompt: they are not sampled again.
            LogitRows::Last if is_final_chunk && self.tokens.len() == self.prompt => rows - 1,
            LogitRows::Last => rows,
        };
        (step, from..rows)
    }

    /// The length of the computed prefix that it shares with `prompt`; never all of `prompt`, whose last row needs
    /// logits.
    pub(crate) fn computed_prefix_len(&self, prompt: &[u32]) -> usize {
        shared_prefix_len(self.tokens(), prompt)
    }

    /// The same, including its pending tokens.
    pub(crate) fn future_prefix_len(&self, prompt: &[u32]) -> usize {
        shared_prefix_len(&self.tokens, prompt)
    }

    /// Ends a chunk after `len` tokens.
    pub(crate) fn add_chunk_boundary(&mut self, len: usize) {
        if len > self.computed
            && len < self.tokens.len()
            && let Err(place) = self.chunk_boundaries.binary_search(&len)
        {
            self.chunk_boundaries.insert(place, len);
        }
    }

    /// The number of rows until the next chunk boundary or snapshot position; at most `rows`.
    pub(crate) fn rows_until_boundary(&self, rows: usize) -> usize {
        let reached = self.reached();
        let stored = self.blocks.iter().flat_map(|blocks| &blocks.snapshots);
        let ends = self.chunk_boundaries.iter().chain(&self.snapshot_positions).chain(stored);
        let ends = ends.filter(|end| **end > reached);
        ends.map(|end| end - reached).min().map_or(rows, |left| left.min(rows))
    }

    /// The number of its next `rows` rows that are scored, that is, whose logits only give log probabilities.
    pub(crate) fn scored_rows(&self, rows: usize) -> usize {
        match self.logit_rows {
            LogitRows::From(first) if self.is_scored => {
                rows.saturating_sub(first.saturating_sub(self.reached()))
            }
            _ => 0,
        }
    }
}

/// The number of tokens of `prompt` that need no computation if the state of `held` exists.
pub(crate) fn shared_prefix_len(held: &[u32], prompt: &[u32]) -> usize {
    let common = held.iter().zip(prompt).take_while(|(held, new)| held == new).count();
    common.min(prompt.len().saturating_sub(1))
}

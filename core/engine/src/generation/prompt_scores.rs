//! [`PromptScores`]: log probabilities of the tokens of a prompt.

use super::answer_text::AnswerText;
use crate::request::Event;
use crate::sampling::log_probabilities;
use crate::sequence::{LogitRows, Sequence};

/// Reports the tokens of a prompt with their log probabilities, row by row as they are computed: no row is kept.
pub(crate) struct PromptScores {
    /// The position of the next token to report.
    next: usize,
    /// Alternatives of each token.
    count: usize,
}

impl PromptScores {
    /// Reports the tokens from position `first` on, with `count` alternatives each.
    pub(crate) fn new(first: usize, count: usize) -> Self {
        Self { next: first, count }
    }

    /// Takes the logits `[T', V]` of the newest rows of a prompt, whose state `sequence` has now; `width` is V. Returns
    /// the last row if the prompt is complete.
    pub(crate) fn take<'v>(
        &mut self,
        rows: &'v [f32],
        width: usize,
        sequence: &mut Sequence,
        text: &AnswerText,
        sink: &mut dyn FnMut(Event),
    ) -> Option<&'v [f32]> {
        let (prompt, computed) = (&sequence.tokens[..sequence.prompt], sequence.computed);
        let rows = rows.chunks_exact(width.max(1));
        let first = computed.saturating_sub(rows.len());
        if self.next == 0 {
            self.report(prompt, None, text, sink);
        }
        // The row of a position predicts the token after it.
        for (position, row) in (first + 1..).zip(rows.clone()) {
            if position == self.next {
                self.report(prompt, Some(row), text, sink);
            }
        }
        let is_complete = computed >= prompt.len();
        // If the state is dropped before the prompt is complete, these rows are not computed as logits again.
        sequence.logit_rows = if is_complete { LogitRows::Last } else { LogitRows::From(computed) };
        rows.last().filter(|_| is_complete)
    }

    /// Reports the next token, which `row` predicts; the first token of a prompt is predicted by nothing.
    fn report(
        &mut self,
        prompt: &[u32],
        row: Option<&[f32]>,
        text: &AnswerText,
        sink: &mut dyn FnMut(Event),
    ) {
        let position = self.next;
        let Some(&id) = prompt.get(position) else { return };
        let scores = row.map(|row| log_probabilities(row, id, self.count));
        let (logprob, top) = scores.map_or((None, Vec::new()), |(own, top)| (Some(own), top));
        let top = top.into_iter().map(|token| text.named(token)).collect();
        sink(Event::PromptToken { position, id, piece: text.piece(id), bytes: text.bytes(id), logprob, top });
        self.next += 1;
    }
}

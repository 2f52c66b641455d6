//! [`AnswerStart`]: the position where an answer starts, and the logits there.

use super::Sequence;
use crate::output::{OutputRows, SequenceResult, StepResults, StepRows};

/// Where an answer of a sequence starts.
#[derive(Debug)]
pub(crate) struct AnswerStart {
    /// Tokens of the prompt.
    pub(crate) tokens: usize,
    /// Logits `[V]` after the last of them.
    pub(crate) logits: Vec<f32>,
    /// Whether the sequence is at this position again, and the logits were not taken yet.
    pub(crate) ready: bool,
}

impl Sequence {
    /// Whether an answer to exactly this prompt started here.
    pub(crate) fn answered(&self, prompt: &[u32]) -> bool {
        self.answer.as_ref().is_some_and(|start| start.tokens == prompt.len())
            && self.tokens().starts_with(prompt)
    }

    /// Called when the sequence holds a prompt as far as possible: if that is all of it, its logits are known.
    pub(crate) fn set_ready_at(&mut self, prompt: usize) {
        if let Some(start) = &mut self.answer {
            start.ready = start.tokens == prompt && self.computed == prompt;
        }
    }

    /// Drops the start of the answer if the sequence was rewound before it.
    pub(crate) fn drop_lost_start(&mut self) {
        let held = self.computed;
        self.answer.take_if(|start| start.tokens > held);
    }

    /// The logits after its prompt, if they are known without a step; only once.
    pub(crate) fn take_known_logits(&mut self) -> Option<StepResults> {
        let start = self.answer.as_mut().filter(|start| start.ready)?;
        start.ready = false;
        let result = SequenceResult { index: 0, rows: Ok(OutputRows::LastLogits(0..1)) };
        Some(StepResults::new(StepRows::of_one(start.logits.clone()), vec![result]))
    }
}

//! What an answer may consist of, as far as that is known before it arrives.

use super::{AnswerParser, AnswerPlace, Match};

impl AnswerParser {
    /// The same for an answer whose calls begin only after the reasoning: what looks like a call in it is reasoning.
    #[must_use]
    pub fn with_calls_after_reasoning(self) -> Self {
        Self { reasoning_calls: false, ..self }
    }

    /// The same for an answer that consists of calls after its reasoning: the beginning of one that was cut is no text.
    #[must_use]
    pub fn with_only_calls(self) -> Self {
        Self { only_calls: true, ..self.with_calls_after_reasoning() }
    }

    /// The same for an answer that is a text or consists of calls: what looks like a call in the middle of text is text.
    #[must_use]
    pub fn with_calls_or_text(self) -> Self {
        Self { starts: Vec::new(), ..self.with_calls_after_reasoning() }
    }

    /// Removes the beginning of a call at the end of an answer that was cut; returns whether there was one. Text that may
    /// be a part of a marker is one only where nothing but calls can come.
    pub(super) fn drop_begun_call(&self, held: &mut String) -> bool {
        let calls = self.syntax.calls.as_ref().filter(|_| self.next_call().is_some());
        let Some(format) = calls.map(|calls| &calls.format) else { return false };
        let place = match &self.place {
            AnswerPlace::Reasoning(..) | AnswerPlace::Call(..) => return false,
            AnswerPlace::Between if format.close().matches(held.trim_start()) == Match::Partial => None,
            AnswerPlace::Before | AnswerPlace::Between if self.only_calls => Some(0),
            _ if format.keys().bare => None,
            _ => format.start_words().into_iter().filter_map(|word| held.find(word.as_str())).min(),
        };
        let Some(at) = place.filter(|at| !held[*at..].trim().is_empty()) else { return false };
        held.truncate(at);
        held.truncate(held.trim_end().len());
        true
    }
}

//! [`ChatEvents`]: an answer of a conversation as an iterator over its events.

use crate::error::GenerateError;
use crate::message::ChatMessage;
use crate::request::{Event, Outcome};
use crate::session::Events;
use crate::stopping::StopReason;

/// An answer of a conversation as an iterator, like [`Events`]. When this is dropped or returns its outcome, the
/// answer becomes part of the conversation; an answer that was stopped stays as far as it came. If it is empty or
/// failed, the conversation is restored.
pub struct ChatEvents<'s> {
    notice: Option<Event>,
    /// `None` after the outcome was returned.
    events: Option<Events<'s>>,
    conversation: Conversation<'s>,
}

/// A conversation that waits for an answer.
pub(crate) struct Conversation<'s> {
    pub(crate) messages: &'s mut Vec<ChatMessage>,
    pub(crate) dropped: &'s mut usize,
    /// The number of dropped messages before this turn.
    pub(crate) dropped_before: usize,
    pub(crate) reversal: Reversal,
}

/// How to restore the conversation.
pub(crate) enum Reversal {
    /// Remove this number of messages at the end.
    Unsaid(usize),
    /// Put this answer back.
    Answer(ChatMessage),
}

impl Reversal {
    /// Restores the messages.
    pub(crate) fn apply(self, messages: &mut Vec<ChatMessage>) {
        match self {
            Self::Unsaid(count) => messages.truncate(messages.len().saturating_sub(count)),
            Self::Answer(message) => messages.push(message),
        }
    }
}

impl Conversation<'_> {
    fn settle(&mut self, result: Option<&Outcome>) {
        let reversal = std::mem::replace(&mut self.reversal, Reversal::Unsaid(0));
        match result.filter(|outcome| !is_nothing(outcome)) {
            Some(outcome) => {
                let reasoning = (!outcome.reasoning.is_empty()).then(|| outcome.reasoning.clone());
                let tool_calls = outcome.tool_calls.clone();
                let message = ChatMessage::assistant(&outcome.text);
                self.messages.push(ChatMessage { reasoning, tool_calls, ..message });
            }
            None => {
                reversal.apply(self.messages);
                *self.dropped = self.dropped_before;
            }
        }
    }
}

/// Whether the answer was cancelled before any text.
fn is_nothing(outcome: &Outcome) -> bool {
    let nothing = outcome.text.is_empty() && outcome.reasoning.is_empty() && outcome.tool_calls.is_empty();
    outcome.reason == StopReason::Cancelled && nothing
}

impl<'s> ChatEvents<'s> {
    pub(crate) fn new(notice: Option<Event>, events: Events<'s>, conversation: Conversation<'s>) -> Self {
        Self { notice, events: Some(events), conversation }
    }

    /// The outcome. An answer that has not ended is cancelled, and stays in the conversation as far as it came.
    ///
    /// # Errors
    /// As [`Events::into_outcome`].
    pub fn into_outcome(mut self) -> Result<Outcome, GenerateError> {
        self.finish().unwrap_or(Err(GenerateError::Cancelled))
    }

    /// Ends the answer, once.
    fn finish(&mut self) -> Option<Result<Outcome, GenerateError>> {
        let result = self.events.take()?.into_outcome();
        self.conversation.settle(result.as_ref().ok());
        Some(result)
    }
}

impl Iterator for ChatEvents<'_> {
    type Item = Result<Event, GenerateError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.notice.take().map(Ok).or_else(|| self.events.as_mut()?.next())
    }
}

impl Drop for ChatEvents<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            if self.events.take().is_some() {
                self.conversation.settle(None);
            }
        } else {
            drop(self.finish());
        }
    }
}

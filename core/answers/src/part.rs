//! [`AnswerPart`]: what an answer consists of.

use crate::call::ToolCall;

/// A part of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AnswerPart {
    /// Text of the answer.
    Text(String),
    /// Text of the reasoning.
    Reasoning(String),
    /// A call begins. Its arguments follow.
    CallBegin {
        /// The number of the call, from 0.
        index: usize,
        /// Its id.
        id: String,
        /// The tool.
        name: String,
    },
    /// More text of the arguments of the call that has begun: JSON.
    CallArguments {
        /// The number of the call.
        index: usize,
        /// The text.
        text: String,
    },
    /// The call is complete. A call without this part is not.
    CallEnd {
        /// The number of the call.
        index: usize,
        /// The whole call.
        call: ToolCall,
    },
    /// A note about a call that is not valid.
    Notice(String),
}

/// How an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AnswerEnd {
    /// The model ended it.
    Model,
    /// It was cut.
    Cut,
}

/// Adds a part unless its text is empty.
pub(crate) fn push_text(parts: &mut Vec<AnswerPart>, part: AnswerPart) {
    if !matches!(&part, AnswerPart::Text(text) | AnswerPart::Reasoning(text) if text.is_empty()) {
        parts.push(part);
    }
}

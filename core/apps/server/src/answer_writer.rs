//! [`AnswerWriter`]: answers in the format of one interface.

use crate::answering::{AnswerChange, Answering};
use crate::fault::ApiFault;
use crate::whole_answer::WholeAnswer;
use serde_json::Value;

/// Writes answers in the format of one interface, as a stream or whole. It adds what it writes of a stream to a text that
/// is sent when the engine has nothing more to say for the moment.
pub(crate) trait AnswerWriter: Send {
    /// The content type of a stream.
    fn content_type(&self) -> &'static str {
        "text/event-stream"
    }

    /// The beginning of a stream.
    fn begin(&mut self, text: &mut String);

    /// A change of an answer.
    fn change(&mut self, change: AnswerChange, answering: &Answering, text: &mut String);

    /// The end of a stream, after every answer has ended.
    fn end(&mut self, answering: &Answering, text: &mut String);

    /// The end of a stream by an error.
    fn fault(&mut self, fault: &ApiFault, text: &mut String);

    /// What is sent after a while without a change, so that no proxy thinks that the connection is dead.
    fn waiting(&self) -> &'static str {
        ": waiting\n\n"
    }

    /// The body of a whole answer.
    fn whole(&self, whole: &WholeAnswer, answering: &Answering) -> Value;
}

/// Adds a server-sent event with these data, which are one line.
pub(crate) fn add_event(text: &mut String, name: Option<&str>, data: &Value) {
    if let Some(name) = name {
        text.push_str(&format!("event: {name}\n"));
    }
    text.push_str(&format!("data: {data}\n\n"));
}

//! What is taken from the text of a call, and what is reported of it.

use super::{CallPurpose, CallReader, ReaderStep, next_in, shown};
use crate::call::ToolCall;
use crate::json_scan::{JsonScanner, Scan, escape_into};
use crate::literal::MOST_SPACE;
use crate::part::{AnswerPart, push_text};

impl CallReader {
    /// Removes read text from the held text.
    pub(in crate::parser) fn take(
        &mut self,
        held: &mut String,
        length: usize,
        parts: &mut Vec<AnswerPart>,
    ) -> String {
        let text: String = held.drain(..length).collect();
        if let Some(id) = &mut self.id_text {
            id.push_str(&text);
        }
        match self.purpose {
            CallPurpose::Undecided => self.raw.push_str(&text),
            CallPurpose::Call => {}
            CallPurpose::Text => push_text(parts, AnswerPart::Text(text.clone())),
        }
        text
    }

    /// Removes white space at the beginning of the held text.
    ///
    /// # Errors
    /// There is too much of it.
    pub(in crate::parser) fn skip_space(
        &mut self,
        held: &mut String,
        parts: &mut Vec<AnswerPart>,
    ) -> Result<(), ReaderStep> {
        let space = held.len() - held.trim_start().len();
        if space > MOST_SPACE {
            return Err(ReaderStep::Failed("there is too much white space in it".to_owned()));
        }
        self.take(held, space, parts);
        Ok(())
    }

    /// Feeds a scanner and removes what it has read. Returns the text that belongs to the value, and whether the value
    /// is complete, or why it is not JSON.
    pub(in crate::parser) fn scan(
        &mut self,
        scanner: &mut JsonScanner,
        held: &mut String,
        parts: &mut Vec<AnswerPart>,
    ) -> (String, Result<bool, ReaderStep>) {
        let (length, done) = match scanner.feed(held) {
            Scan::More => (held.len(), Ok(false)),
            Scan::Done(length) => (length, Ok(true)),
            Scan::Invalid(at) => {
                (at, Err(ReaderStep::Failed(format!("{} is not JSON there", next_in(&held[at..])))))
            }
        };
        (self.take(held, length, parts), done)
    }

    /// The name of the tool.
    pub(in crate::parser) fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Sets the name of the tool.
    pub(in crate::parser) fn set_name(&mut self, name: String) {
        self.name = Some(name);
    }

    /// Sets the id that the model wrote, unless the call was reported with another one.
    pub(in crate::parser) fn set_id(&mut self, id: String) {
        if self.purpose != CallPurpose::Call {
            self.id = Some(id);
        }
    }

    /// Whether the call was reported or is text.
    pub(in crate::parser) fn is_decided(&self) -> bool {
        self.purpose != CallPurpose::Undecided
    }

    /// Reports the call, whose name is known; a call of a tool that is not declared becomes text.
    pub(in crate::parser) fn begin(&mut self, parts: &mut Vec<AnswerPart>) -> Result<(), ReaderStep> {
        if self.is_decided() {
            return Ok(());
        }
        let name = self.name.clone().unwrap_or_default();
        let raw = std::mem::take(&mut self.raw);
        if !self.calls.tools.has(&name) {
            let reason = format!("the answer calls {}, which is not one of the tools", shown(&name));
            if self.declared_only {
                self.raw = raw;
                return Err(ReaderStep::Failed(reason));
            }
            self.purpose = CallPurpose::Text;
            parts.push(AnswerPart::Notice(format!("{reason}: the call is text")));
            push_text(parts, AnswerPart::Text(raw));
            return Ok(());
        }
        self.purpose = CallPurpose::Call;
        let made = || self.calls.format.make_id(&name, self.index, self.calls.salt);
        let id = self.id.clone().filter(|id| !id.is_empty()).unwrap_or_else(made);
        self.id = Some(id.clone());
        parts.push(AnswerPart::CallBegin { index: self.index, id, name });
        if !self.arguments.is_empty() {
            parts.push(AnswerPart::CallArguments { index: self.index, text: self.arguments.clone() });
        }
        Ok(())
    }

    /// Reports a call whose arguments are written key by key.
    pub(super) fn begin_object(&mut self, parts: &mut Vec<AnswerPart>) -> Result<(), ReaderStep> {
        self.begin(parts)?;
        self.emit("{", parts);
        Ok(())
    }

    /// Ends arguments that are written key by key.
    pub(in crate::parser) fn end_object(&mut self, parts: &mut Vec<AnswerPart>) -> ReaderStep {
        self.emit("}", parts);
        ReaderStep::Done
    }

    /// Reports a key and the colon after it.
    pub(in crate::parser) fn emit_key(
        &mut self,
        key: &str,
        parts: &mut Vec<AnswerPart>,
    ) -> Result<(), ReaderStep> {
        if !self.keys.insert(key.to_owned()) {
            return Err(ReaderStep::Failed(format!("the argument {} occurs twice", shown(key))));
        }
        let mut text = (if self.keys.len() > 1 { ", \"" } else { "\"" }).to_owned();
        escape_into(&mut text, key);
        text.push_str("\": ");
        self.emit(&text, parts);
        Ok(())
    }

    /// Adds JSON to the arguments.
    pub(in crate::parser) fn emit(&mut self, text: &str, parts: &mut Vec<AnswerPart>) {
        if text.is_empty() || self.purpose == CallPurpose::Text {
            return;
        }
        self.arguments.push_str(text);
        if self.purpose == CallPurpose::Call {
            parts.push(AnswerPart::CallArguments { index: self.index, text: text.to_owned() });
        }
    }

    /// Whether there are arguments.
    pub(in crate::parser) fn has_arguments(&self) -> bool {
        !self.arguments.is_empty()
    }

    /// Reports that the call is complete.
    pub(super) fn end(&mut self, parts: &mut Vec<AnswerPart>) -> ReaderStep {
        if self.purpose == CallPurpose::Call {
            let (id, name) = (self.id.clone().unwrap_or_default(), self.name.clone().unwrap_or_default());
            let call = ToolCall { id, name, arguments: std::mem::take(&mut self.arguments) };
            if let Err(error) = call.object() {
                return ReaderStep::Failed(format!("the arguments are not a JSON object: {error}"));
            }
            parts.push(AnswerPart::CallEnd { index: self.index, call });
        }
        ReaderStep::Done
    }
}

//! [`ArgumentReader`]: arguments with a tag around each, whose values have no quotes.

use super::call_reader::{CallReader, ReaderStep, next_in, shown};
use crate::json_scan::{JsonScanner, Scan, escape_into};
use crate::literal::{FixedText, Match, first_match, overlap};
use crate::literal_value::{ValueForm, to_json};
use crate::part::AnswerPart;
use crate::pattern::LONGEST_KEY;
use crate::tool::ValueKind;
use serde_json::Value;
use std::sync::Arc;

/// The most bytes of a value that is not text.
pub(super) const LONGEST_VALUE: usize = 1 << 20;

/// The marks around a value with any text.
const CDATA: [&str; 2] = ["<![CDATA[", "]]>"];

/// The position in the arguments.
#[derive(Clone, Debug, Default)]
enum ArgumentPlace {
    /// Before an argument or the end.
    #[default]
    Before,
    /// In the key; one of these forms.
    Key(Vec<usize>),
    /// After the key.
    Middle(Vec<usize>, String),
    /// Before the value of this form.
    BeforeValue(usize, String),
    /// In the value: form, whether it is in CDATA, how it is written, what of it is kept.
    Value(usize, bool, ValueKind, KeptValue),
    /// After CDATA.
    AfterValue(usize),
}

/// The value of an argument that is no plain text, as far as it is read.
#[derive(Clone, Debug)]
struct KeptValue {
    text: String,
    scanner: JsonScanner,
    scan: Scan,
}

impl KeptValue {
    fn new() -> Self {
        Self { text: String::new(), scanner: JsonScanner::new(), scan: Scan::More }
    }

    fn push(&mut self, text: &str) {
        self.text.push_str(text);
        if self.scan == Scan::More {
            self.scan = self.scanner.feed(text);
        }
    }

    /// Whether it ends in a string of an object or a list, to which also the text of a tag belongs.
    fn is_in_string(&self) -> bool {
        self.scan == Scan::More && self.scanner.is_in_nested_string()
    }
}

/// Reads arguments in the forms of a format.
#[derive(Clone, Debug, Default)]
pub(super) struct ArgumentReader {
    place: ArgumentPlace,
}

impl ArgumentReader {
    /// One step; `next` is what may follow the arguments.
    pub(super) fn advance(
        &mut self,
        call: &mut CallReader,
        held: &mut String,
        parts: &mut Vec<AnswerPart>,
        next: &[FixedText],
    ) -> ReaderStep {
        match std::mem::take(&mut self.place) {
            ArgumentPlace::Before => self.before(call, held, parts, next),
            ArgumentPlace::Key(forms) => self.key(forms, call, held, parts),
            ArgumentPlace::Middle(forms, key) => self.middle(forms, key, call, held, parts),
            ArgumentPlace::BeforeValue(form, key) => self.before_value(form, key, call, held, parts),
            ArgumentPlace::Value(form, cdata, kind, kept) => {
                self.value((form, cdata, kind, kept), call, held, parts)
            }
            ArgumentPlace::AfterValue(form) => self.after_value(form, call, held, parts),
        }
    }

    fn before(
        &mut self,
        call: &mut CallReader,
        held: &mut String,
        parts: &mut Vec<AnswerPart>,
        next: &[FixedText],
    ) -> ReaderStep {
        if let Err(failed) = call.skip_space(held, parts) {
            return failed;
        }
        let format = Arc::clone(&call.calls.format);
        let leads = |form: usize| format.forms()[form].0.lead.matches(held);
        for form in 0..format.forms().len() {
            match leads(form) {
                Match::No => {}
                Match::Partial => return ReaderStep::Wait,
                Match::Full(length) => {
                    let all = (0..format.forms().len()).filter(|&other| leads(other) == Match::Full(length));
                    self.place = ArgumentPlace::Key(all.collect());
                    call.take(held, length, parts);
                    return ReaderStep::Again;
                }
            }
        }
        match first_match(next.iter().map(|literal| literal.matches(held))) {
            Match::No => ReaderStep::Failed(format!("{} is not an argument", next_in(held))),
            Match::Partial => ReaderStep::Wait,
            Match::Full(_) => call.end_object(parts),
        }
    }

    fn key(
        &mut self,
        forms: Vec<usize>,
        call: &mut CallReader,
        held: &mut String,
        parts: &mut Vec<AnswerPart>,
    ) -> ReaderStep {
        let format = Arc::clone(&call.calls.format);
        let ends = forms.iter().filter_map(|&form| {
            let word = format.forms()[form].0.middle.first_word()?;
            // The first character: the rest of the words may differ.
            held.find(word.chars().next()?)
        });
        let Some(end) = ends.min() else {
            if held.len() > LONGEST_KEY {
                return ReaderStep::Failed("the name of an argument is too long".to_owned());
            }
            self.place = ArgumentPlace::Key(forms);
            return ReaderStep::Wait;
        };
        let key = call.take(held, end, parts);
        let key = key.trim();
        if key.is_empty() || key.len() > LONGEST_KEY {
            return ReaderStep::Failed(format!("{} is not the name of an argument", shown(key)));
        }
        self.place = ArgumentPlace::Middle(forms, key.to_owned());
        ReaderStep::Again
    }

    fn middle(
        &mut self,
        forms: Vec<usize>,
        key: String,
        call: &mut CallReader,
        held: &mut String,
        parts: &mut Vec<AnswerPart>,
    ) -> ReaderStep {
        let format = Arc::clone(&call.calls.format);
        for &form in &forms {
            match format.forms()[form].0.middle.matches(held) {
                Match::No => {}
                Match::Partial => {
                    self.place = ArgumentPlace::Middle(forms, key);
                    return ReaderStep::Wait;
                }
                Match::Full(length) => {
                    call.take(held, length, parts);
                    self.place = ArgumentPlace::BeforeValue(form, key);
                    return ReaderStep::Again;
                }
            }
        }
        ReaderStep::Failed(format!("{} does not follow the name of an argument", next_in(held)))
    }

    fn before_value(
        &mut self,
        form: usize,
        key: String,
        call: &mut CallReader,
        held: &mut String,
        parts: &mut Vec<AnswerPart>,
    ) -> ReaderStep {
        let format = Arc::clone(&call.calls.format);
        let (argument, json) = &format.forms()[form];
        let space = &argument.before_value;
        let skipped = if held.starts_with(space.as_str()) { space.len() } else { 0 };
        let rest = &held[skipped..];
        let may_be_cdata = format.keys().cdata && rest.len() < CDATA[0].len() && CDATA[0].starts_with(rest);
        if (skipped < space.len() && space.starts_with(held.as_str())) || may_be_cdata {
            self.place = ArgumentPlace::BeforeValue(form, key);
            return ReaderStep::Wait;
        }
        let cdata = format.keys().cdata && rest.starts_with(CDATA[0]);
        call.take(held, skipped + if cdata { CDATA[0].len() } else { 0 }, parts);
        let kind = match (json, format.forms().len()) {
            (true, _) => ValueKind::Json,
            (false, 1) => call.calls.tools.kind(call.name().unwrap_or_default(), &key),
            (false, _) => ValueKind::Text,
        };
        if let Err(failed) = call.emit_key(&key, parts) {
            return failed;
        }
        if kind == ValueKind::Text {
            call.emit("\"", parts);
        }
        self.place = ArgumentPlace::Value(form, cdata, kind, KeptValue::new());
        ReaderStep::Again
    }

    fn value(
        &mut self,
        (form, cdata, kind, mut kept): (usize, bool, ValueKind, KeptValue),
        call: &mut CallReader,
        held: &mut String,
        parts: &mut Vec<AnswerPart>,
    ) -> ReaderStep {
        let format = Arc::clone(&call.calls.format);
        let argument = &format.forms()[form].0;
        let (space, end) = if cdata { ("", CDATA[1]) } else { (&*argument.after_value, &*argument.end) };
        let found = held.find(end);
        let length = match found {
            Some(at) => at - if held[..at].ends_with(space) { space.len() } else { 0 },
            None => held.len() - overlap(held, end).max(overlap(held, &format!("{space}{end}"))),
        };
        let text = call.take(held, length, parts);
        if kind == ValueKind::Text {
            let mut escaped = String::new();
            escape_into(&mut escaped, &text);
            call.emit(&escaped, parts);
        } else {
            kept.push(&text);
        }
        if kept.text.len() > LONGEST_VALUE {
            return ReaderStep::Failed(format!("a value has more than {LONGEST_VALUE} bytes"));
        }
        let Some(at) = found else {
            self.place = ArgumentPlace::Value(form, cdata, kind, kept);
            return ReaderStep::Wait;
        };
        let tag = call.take(held, at - length + end.len(), parts);
        if kept.is_in_string() {
            kept.push(&tag);
            self.place = ArgumentPlace::Value(form, cdata, kind, kept);
            return ReaderStep::Again;
        }
        match kind {
            ValueKind::Text => call.emit("\"", parts),
            _ => call.emit(&as_json(&kept.text, kind), parts),
        }
        self.place = if cdata { ArgumentPlace::AfterValue(form) } else { ArgumentPlace::Before };
        ReaderStep::Again
    }

    fn after_value(
        &mut self,
        form: usize,
        call: &mut CallReader,
        held: &mut String,
        parts: &mut Vec<AnswerPart>,
    ) -> ReaderStep {
        let format = Arc::clone(&call.calls.format);
        let argument = &format.forms()[form].0;
        match FixedText::new(&format!("{} {}", argument.after_value, argument.end)).matches(held) {
            Match::No => ReaderStep::Failed(format!("{} follows a value", next_in(held))),
            Match::Partial => {
                self.place = ArgumentPlace::AfterValue(form);
                ReaderStep::Wait
            }
            Match::Full(length) => {
                call.take(held, length, parts);
                ReaderStep::Again
            }
        }
    }
}

/// A value as JSON: as it stands if it is JSON, a Python literal where the schema wants no text, otherwise a string.
fn as_json(text: &str, kind: ValueKind) -> String {
    let trimmed = text.trim();
    match serde_json::from_str::<Value>(trimmed) {
        Ok(Value::String(_)) if kind == ValueKind::Either => {}
        Ok(_) => return trimmed.to_owned(),
        Err(_) => {}
    }
    let python = (kind == ValueKind::Json).then(|| to_json(trimmed, ValueForm::Python)).flatten();
    python.unwrap_or_else(|| Value::from(text).to_string())
}

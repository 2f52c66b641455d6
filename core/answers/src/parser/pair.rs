//! [`PairReader`]: arguments as `key=value` with Python literals, or as `key:value` with bare keys.

use super::argument::LONGEST_VALUE;
use super::call_reader::{CallReader, ReaderStep, next_in, shown};
use crate::literal::{FixedText, Match, first_match};
use crate::literal_value::{ValueForm, ValueScanner, to_json};
use crate::part::AnswerPart;
use crate::pattern::LONGEST_KEY;
use std::sync::Arc;

/// The position in the arguments.
#[derive(Clone, Debug)]
enum PairPlace {
    /// Before a key or the end.
    Before,
    /// In a key.
    Key,
    /// In the value of this key.
    Value(String, ValueScanner, String),
    /// Before a comma or the end.
    Comma,
}

/// Reads arguments as pairs.
#[derive(Clone, Debug)]
pub(super) struct PairReader {
    python: bool,
    place: PairPlace,
}

impl PairReader {
    /// A reader of Python's keyword arguments, or of pairs.
    pub(super) fn new(python: bool) -> Self {
        Self { python, place: PairPlace::Before }
    }

    /// One step; `next` is what may follow the arguments.
    pub(super) fn advance(
        &mut self,
        call: &mut CallReader,
        held: &mut String,
        parts: &mut Vec<AnswerPart>,
        next: &[FixedText],
    ) -> ReaderStep {
        match std::mem::replace(&mut self.place, PairPlace::Before) {
            PairPlace::Key => self.key(call, held, parts),
            PairPlace::Value(key, scanner, value) => self.value((key, scanner, value), call, held, parts),
            place => self.between(matches!(place, PairPlace::Comma), (call, held, parts), next),
        }
    }

    fn between(
        &mut self,
        after_value: bool,
        (call, held, parts): (&mut CallReader, &mut String, &mut Vec<AnswerPart>),
        next: &[FixedText],
    ) -> ReaderStep {
        if let Err(failed) = call.skip_space(held, parts) {
            return failed;
        }
        match first_match(next.iter().map(|literal| literal.matches(held))) {
            Match::No => {}
            Match::Partial => {
                self.place = if after_value { PairPlace::Comma } else { PairPlace::Before };
                return ReaderStep::Wait;
            }
            Match::Full(_) => return call.end_object(parts),
        }
        match (after_value, held.starts_with(',')) {
            (true, true) => {
                call.take(held, 1, parts);
                self.place = PairPlace::Before;
            }
            (false, false) => self.place = PairPlace::Key,
            _ => return ReaderStep::Failed(format!("{} is not an argument", next_in(held))),
        }
        ReaderStep::Again
    }

    fn key(&mut self, call: &mut CallReader, held: &mut String, parts: &mut Vec<AnswerPart>) -> ReaderStep {
        let Some(end) = held.find(if self.python { '=' } else { ':' }) else {
            if held.len() > LONGEST_KEY {
                return ReaderStep::Failed("the name of an argument is too long".to_owned());
            }
            self.place = PairPlace::Key;
            return ReaderStep::Wait;
        };
        let written = call.take(held, end, parts);
        call.take(held, 1, parts);
        let mark = call.calls.format.keys().quote.clone().unwrap_or_default();
        let unquoted = |mark: &str| written.trim().strip_prefix(mark)?.strip_suffix(mark);
        let quoted = if self.python { None } else { unquoted(&mark).or_else(|| unquoted("\"")) };
        let key = quoted.unwrap_or(written.trim());
        let plain =
            |character: char| character.is_alphanumeric() || matches!(character, '_' | '-' | '.' | '$');
        if key.is_empty() || key.len() > LONGEST_KEY || (quoted.is_none() && !key.chars().all(plain)) {
            return ReaderStep::Failed(format!("{} is not the name of an argument", shown(key)));
        }
        self.place = PairPlace::Value(key.to_owned(), ValueScanner::default(), String::new());
        ReaderStep::Again
    }

    fn value(
        &mut self,
        (key, mut scanner, mut value): (String, ValueScanner, String),
        call: &mut CallReader,
        held: &mut String,
        parts: &mut Vec<AnswerPart>,
    ) -> ReaderStep {
        let format = Arc::clone(&call.calls.format);
        let form = match (self.python, &format.keys().quote) {
            (false, Some(mark)) => ValueForm::Pairs(mark),
            _ => ValueForm::Python,
        };
        let (length, done) = scanner.feed(held, form);
        value.push_str(&call.take(held, length, parts));
        if value.len() > LONGEST_VALUE {
            return ReaderStep::Failed(format!("a value has more than {LONGEST_VALUE} bytes"));
        }
        if !done {
            self.place = PairPlace::Value(key, scanner, value);
            return ReaderStep::Wait;
        }
        let Some(json) = to_json(&value, form) else {
            return ReaderStep::Failed(format!("the value of {} is {}", shown(&key), shown(value.trim())));
        };
        if let Err(failed) = call.emit_key(&key, parts) {
            return failed;
        }
        call.emit(&json, parts);
        self.place = PairPlace::Comma;
        ReaderStep::Again
    }
}

//! [`ObjectReader`]: a JSON object that has the name and the arguments of a call.

use super::call_reader::{CallReader, ReaderStep, next_in, shown};
use crate::json_scan::JsonScanner;
use crate::part::AnswerPart;
use serde_json::{Map, Value};

/// The most bytes of a key, a name or an id.
const LONGEST_TEXT: usize = 1024;

/// What the value of a key is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ObjectRole {
    Name,
    Arguments,
    Id,
    Other,
}

/// The position in the object.
#[derive(Clone, Debug, Default)]
enum ObjectPlace {
    #[default]
    Open,
    /// Before a key; whether the object may end here.
    Key(bool),
    InKey(JsonScanner, String),
    Colon(ObjectRole),
    Value(ObjectRole, JsonScanner, String),
    Comma,
}

/// Reads an object.
#[derive(Clone, Debug, Default)]
pub(super) struct ObjectReader {
    place: ObjectPlace,
}

impl ObjectReader {
    /// One step.
    pub(super) fn advance(
        &mut self,
        call: &mut CallReader,
        held: &mut String,
        parts: &mut Vec<AnswerPart>,
    ) -> ReaderStep {
        match std::mem::take(&mut self.place) {
            ObjectPlace::InKey(scanner, key) => self.in_key(scanner, key, call, held, parts),
            ObjectPlace::Value(ObjectRole::Arguments, scanner, text) => {
                self.in_arguments(scanner, text, call, held, parts)
            }
            ObjectPlace::Value(role, scanner, text) => {
                self.in_value((role, scanner, text), call, held, parts)
            }
            place => self.between(place, call, held, parts),
        }
    }

    /// A character between keys and values.
    fn between(
        &mut self,
        place: ObjectPlace,
        call: &mut CallReader,
        held: &mut String,
        parts: &mut Vec<AnswerPart>,
    ) -> ReaderStep {
        let space = held.len() - held.trim_start().len();
        call.take(held, space, parts);
        let Some(next) = held.chars().next() else {
            self.place = place;
            return ReaderStep::Wait;
        };
        self.place = match (place, next) {
            (ObjectPlace::Open, '{') => ObjectPlace::Key(true),
            (ObjectPlace::Key(_), '"') => {
                self.place = ObjectPlace::InKey(JsonScanner::new(), String::new());
                return ReaderStep::Again;
            }
            (ObjectPlace::Key(true), '}') | (ObjectPlace::Comma, '}') => {
                call.take(held, 1, parts);
                return Self::close(call, parts);
            }
            (ObjectPlace::Comma, ',') => ObjectPlace::Key(false),
            (ObjectPlace::Colon(role), ':') => ObjectPlace::Value(role, JsonScanner::new(), String::new()),
            _ => return ReaderStep::Failed(format!("{} is not JSON there", next_in(held))),
        };
        call.take(held, 1, parts);
        ReaderStep::Again
    }

    /// The end of the object.
    fn close(call: &mut CallReader, parts: &mut Vec<AnswerPart>) -> ReaderStep {
        if call.name().is_none() {
            return ReaderStep::Failed("its name is missing".to_owned());
        }
        if let Err(failed) = call.begin(parts) {
            return failed;
        }
        if !call.has_arguments() {
            call.emit("{}", parts);
        }
        ReaderStep::Done
    }

    fn in_key(
        &mut self,
        mut scanner: JsonScanner,
        mut key: String,
        call: &mut CallReader,
        held: &mut String,
        parts: &mut Vec<AnswerPart>,
    ) -> ReaderStep {
        let (text, done) = call.scan(&mut scanner, held, parts);
        let done = match done {
            Ok(done) => done,
            Err(failed) => return failed,
        };
        key.push_str(&text);
        if key.len() > LONGEST_TEXT {
            return ReaderStep::Failed("a key is too long".to_owned());
        }
        if !done {
            self.place = ObjectPlace::InKey(scanner, key);
            return ReaderStep::Wait;
        }
        let key: String = serde_json::from_str(&key).unwrap_or_default();
        let keys = call.calls.format.keys();
        let role = match &keys.object {
            Some(object) if object.name == key => ObjectRole::Name,
            Some(object) if object.arguments == key => ObjectRole::Arguments,
            Some(object) if object.id.as_ref() == Some(&key) => ObjectRole::Id,
            _ => ObjectRole::Other,
        };
        let again = (role == ObjectRole::Name && call.name().is_some())
            || (role == ObjectRole::Arguments && call.has_arguments());
        if again {
            return ReaderStep::Failed(format!("the key {} occurs twice", shown(&key)));
        }
        // Without a marker, an object with other keys is an answer in JSON.
        if keys.bare && role == ObjectRole::Other && call.name().is_none() && key != "type" {
            return ReaderStep::Failed(format!("it has the key {}", shown(&key)));
        }
        self.place = ObjectPlace::Colon(role);
        ReaderStep::Again
    }

    /// A name, an id or a value without meaning.
    fn in_value(
        &mut self,
        (role, mut scanner, mut value): (ObjectRole, JsonScanner, String),
        call: &mut CallReader,
        held: &mut String,
        parts: &mut Vec<AnswerPart>,
    ) -> ReaderStep {
        let (text, done) = call.scan(&mut scanner, held, parts);
        let done = match done {
            Ok(done) => done,
            Err(failed) => return failed,
        };
        if role != ObjectRole::Other {
            value.push_str(&text);
        }
        if value.len() > LONGEST_TEXT {
            return ReaderStep::Failed("its name or id is too long".to_owned());
        }
        if !done {
            self.place = ObjectPlace::Value(role, scanner, value);
            return ReaderStep::Wait;
        }
        self.place = ObjectPlace::Comma;
        let value: Value = serde_json::from_str(&value).unwrap_or_default();
        match (role, value) {
            (ObjectRole::Name, Value::String(name)) => {
                call.set_name(name);
                let id_may_follow =
                    call.calls.format.keys().object.as_ref().is_some_and(|keys| keys.id.is_some());
                if (!id_may_follow || call.has_arguments())
                    && let Err(failed) = call.begin(parts)
                {
                    return failed;
                }
            }
            (ObjectRole::Name, other) => {
                return ReaderStep::Failed(format!("the name is {}", shown(&other.to_string())));
            }
            (ObjectRole::Id, Value::String(id)) => call.set_id(id),
            (ObjectRole::Id, Value::Number(id)) => call.set_id(id.to_string()),
            _ => {}
        }
        ReaderStep::Again
    }

    /// The arguments: an object, or a text that has one.
    fn in_arguments(
        &mut self,
        mut scanner: JsonScanner,
        mut value: String,
        call: &mut CallReader,
        held: &mut String,
        parts: &mut Vec<AnswerPart>,
    ) -> ReaderStep {
        if !scanner.has_begun() {
            let space = held.len() - held.trim_start().len();
            call.take(held, space, parts);
        }
        let whole = if scanner.has_begun() { value.is_empty() } else { held.starts_with('{') };
        if !scanner.has_begun() && held.is_empty() {
            self.place = ObjectPlace::Value(ObjectRole::Arguments, scanner, value);
            return ReaderStep::Wait;
        }
        if whole
            && call.name().is_some()
            && let Err(failed) = call.begin(parts)
        {
            return failed;
        }
        let (text, done) = call.scan(&mut scanner, held, parts);
        if whole {
            call.emit(&text, parts);
        } else {
            value.push_str(&text);
        }
        let done = match done {
            Ok(done) => done,
            Err(failed) => return failed,
        };
        if !done {
            self.place = ObjectPlace::Value(ObjectRole::Arguments, scanner, value);
            return ReaderStep::Wait;
        }
        self.place = ObjectPlace::Comma;
        if whole {
            return ReaderStep::Again;
        }
        let object = match serde_json::from_str(&value) {
            Ok(Value::String(text)) => serde_json::from_str::<Map<String, Value>>(&text).ok().map(|_| text),
            Ok(Value::Null) => Some("{}".to_owned()),
            _ => None,
        };
        let Some(object) = object else {
            return ReaderStep::Failed(format!("the arguments are {}, not an object", shown(&value)));
        };
        if call.name().is_some()
            && let Err(failed) = call.begin(parts)
        {
            return failed;
        }
        call.emit(&object, parts);
        ReaderStep::Again
    }
}

//! [`JsonObject`]: one object of a `tokenizer.json` (a normalizer, a pre-tokenizer), read field by field, so that an
//! unread field is an error that names it.

use std::cell::RefCell;

use serde_json::{Map, Value};

use super::super::error::TokenizerError;

/// An object with a `type`, and its place in the file.
#[derive(Debug)]
pub(super) struct JsonObject<'a> {
    pub(super) place: String,
    fields: &'a Map<String, Value>,
    read: RefCell<Vec<&'static str>>,
}

impl<'a> JsonObject<'a> {
    /// The object at a place.
    ///
    /// # Errors
    /// The value is not an object.
    pub(super) fn new(place: impl Into<String>, value: &'a Value) -> Result<Self, TokenizerError> {
        let place = place.into();
        match value {
            Value::Object(fields) => Ok(Self { place, fields, read: RefCell::default() }),
            other => Err(bad(place, format!("expected an object, found {}", kind(other)))),
        }
    }

    /// The value of `type`.
    pub(super) fn kind(&self) -> Result<&'a str, TokenizerError> {
        self.text("type")?.ok_or_else(|| bad(&self.place, "it has no `type`"))
    }

    fn get(&self, field: &'static str) -> Option<&'a Value> {
        self.read.borrow_mut().push(field);
        self.fields.get(field).filter(|value| !value.is_null())
    }

    /// A string, if the field exists.
    pub(super) fn text(&self, field: &'static str) -> Result<Option<&'a str>, TokenizerError> {
        self.typed(field, "a string", Value::as_str)
    }

    /// A string of one character, if the field exists.
    pub(super) fn character(&self, field: &'static str) -> Result<Option<char>, TokenizerError> {
        let Some(text) = self.text(field)? else { return Ok(None) };
        let mut characters = text.chars();
        match (characters.next(), characters.next()) {
            (Some(one), None) => Ok(Some(one)),
            _ => Err(self.bad(format!("expected one character in `{field}`, found {text:?}"))),
        }
    }

    /// A flag, if the field exists.
    pub(super) fn flag(&self, field: &'static str) -> Result<Option<bool>, TokenizerError> {
        self.typed(field, "true or false", Value::as_bool)
    }

    /// A count, if the field exists.
    pub(super) fn count(&self, field: &'static str) -> Result<Option<u64>, TokenizerError> {
        self.typed(field, "a whole number", Value::as_u64)
    }

    /// A required value.
    pub(super) fn value(&self, field: &'static str) -> Result<&'a Value, TokenizerError> {
        self.get(field).ok_or_else(|| self.bad(format!("it has no `{field}`")))
    }

    /// The objects of a required list.
    pub(super) fn parts(&self, field: &'static str) -> Result<Vec<Self>, TokenizerError> {
        let list = self.typed(field, "a list", Value::as_array)?;
        let list = list.ok_or_else(|| self.bad(format!("it has no `{field}`")))?;
        let part = |(at, value)| Self::new(format!("{}.{field}[{at}]", self.place), value);
        list.iter().enumerate().map(part).collect()
    }

    /// Skips a field without effect on encoding.
    pub(super) fn skip(&self, field: &'static str) {
        self.read.borrow_mut().push(field);
    }

    /// Checks that every field was read.
    ///
    /// # Errors
    /// An unread field.
    pub(super) fn finish(&self) -> Result<(), TokenizerError> {
        let read = self.read.borrow();
        match self.fields.keys().find(|field| *field != "type" && !read.contains(&field.as_str())) {
            None => Ok(()),
            Some(field) => Err(self.refused(format!("has the unknown field `{field}`"))),
        }
    }

    fn typed<T>(
        &self,
        field: &'static str,
        expected: &str,
        convert: impl Fn(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, TokenizerError> {
        let Some(value) = self.get(field) else {
            return Ok(None);
        };
        let found = || self.bad(format!("expected {expected} in `{field}`, found {}", kind(value)));
        convert(value).map(Some).ok_or_else(found)
    }

    /// The error for a damaged object.
    pub(super) fn bad(&self, problem: impl Into<String>) -> TokenizerError {
        bad(&self.place, problem)
    }

    /// The error for a regex of the object, shortened: a regex can be as long as a file.
    pub(super) fn regex(&self, source: &str, problem: &str) -> TokenizerError {
        let start: String = source.chars().take(200).collect();
        let problem: String = problem.chars().take(200).collect();
        self.refused(format!("is the regex {start:?} with {problem}"))
    }

    /// The error for an unsupported feature of the object; `what` continues the name of the place.
    pub(super) fn refused(&self, what: impl Into<String>) -> TokenizerError {
        refused(&self.place, what)
    }
}

/// The error for a damaged place of the file.
pub(super) fn bad(place: impl Into<String>, problem: impl Into<String>) -> TokenizerError {
    TokenizerError::BadJson { place: place.into(), problem: problem.into() }
}

/// The error for an unsupported feature at a place of the file.
pub(crate) fn refused(place: impl Into<String>, what: impl Into<String>) -> TokenizerError {
    TokenizerError::UnsupportedJson { place: place.into(), what: what.into() }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

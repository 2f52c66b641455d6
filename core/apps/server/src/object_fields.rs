//! [`ObjectFields`]: the fields of a JSON object, each of which is read or refused with its place.

use menagerie_openai::{LineFault, UNSUPPORTED_FIELD};
use serde_json::{Map, Value};
use std::fmt::Display;

/// Options of sampling that have the same name and meaning in ollama's and llama-server's interfaces as in completions.
pub(crate) const SAMPLING_FIELDS: [&str; 11] = [
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "typical_p",
    "repeat_last_n",
    "repeat_penalty",
    "presence_penalty",
    "frequency_penalty",
    "seed",
    "stop",
];

/// The fields that have not been read yet; fields that are null are left out.
pub(crate) struct ObjectFields {
    /// Where the object is; empty for the body itself.
    place: String,
    fields: Map<String, Value>,
}

impl ObjectFields {
    /// The fields of a body.
    pub(crate) fn of_body(fields: Map<String, Value>) -> Self {
        Self::new(String::new(), fields)
    }

    /// The fields of an object at this place.
    pub(crate) fn read(place: String, value: Value) -> Result<Self, LineFault> {
        match value {
            Value::Object(fields) => Ok(Self::new(place, fields)),
            _ => Err(LineFault::of(&place, "expected an object")),
        }
    }

    fn new(place: String, fields: Map<String, Value>) -> Self {
        Self { place, fields: fields.into_iter().filter(|(_, value)| !value.is_null()).collect() }
    }

    /// The place of a field.
    pub(crate) fn place(&self, name: &str) -> String {
        if self.place.is_empty() { name.to_owned() } else { format!("{}.{name}", self.place) }
    }

    /// An error in a field.
    pub(crate) fn fault(&self, name: &str, reason: impl Display) -> LineFault {
        LineFault::of(&self.place(name), reason)
    }

    /// Removes and returns a field.
    pub(crate) fn take(&mut self, name: &str) -> Option<Value> {
        self.fields.remove(name)
    }

    /// Removes and returns a string.
    pub(crate) fn text(&mut self, name: &str) -> Result<Option<String>, LineFault> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(self.fault(name, "expected a string")),
        }
    }

    /// Removes and returns a string that must be there.
    pub(crate) fn needed_text(&mut self, name: &str) -> Result<String, LineFault> {
        self.text(name)?.ok_or_else(|| self.fault(name, "expected a string"))
    }

    /// Removes and returns a boolean.
    pub(crate) fn flag(&mut self, name: &str) -> Result<Option<bool>, LineFault> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(flag)),
            Some(_) => Err(self.fault(name, "expected true or false")),
        }
    }

    /// Removes and returns a list.
    pub(crate) fn list(&mut self, name: &str) -> Result<Option<Vec<Value>>, LineFault> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::Array(list)) => Ok(Some(list)),
            Some(_) => Err(self.fault(name, "expected a list")),
        }
    }

    /// Removes and returns an object.
    pub(crate) fn object(&mut self, name: &str) -> Result<Option<Self>, LineFault> {
        let place = self.place(name);
        self.take(name).map(|value| Self::read(place, value)).transpose()
    }

    /// Removes fields that change no answer, and adds those that were there to `ignored`.
    pub(crate) fn ignore(&mut self, names: &[&str], ignored: &mut IgnoredFields) {
        for name in names {
            if self.take(name).is_some() {
                ignored.add(name);
            }
        }
    }

    /// Moves fields to other fields, whose reader checks them.
    pub(crate) fn pass(&mut self, names: &[&str], fields: &mut Map<String, Value>) {
        for name in names {
            if let Some(value) = self.take(name) {
                fields.insert((*name).to_owned(), value);
            }
        }
    }

    /// Moves a limit of tokens to the field `max_tokens` of a completion. A negative number is no limit: the model ends its
    /// answer, or the context is full.
    pub(crate) fn pass_limit(
        &mut self,
        name: &str,
        fields: &mut Map<String, Value>,
    ) -> Result<(), LineFault> {
        match self.take(name).map(|limit| limit.as_i64().ok_or(limit)).transpose() {
            Ok(None | Some(..0)) => {}
            Ok(Some(limit)) => drop(fields.insert("max_tokens".to_owned(), limit.into())),
            Err(other) => return Err(self.fault(name, format!("{other} is not a whole number"))),
        }
        Ok(())
    }

    /// The fields that have not been read.
    pub(crate) fn into_rest(self) -> Map<String, Value> {
        self.fields
    }

    /// Refuses fields that nothing has read.
    pub(crate) fn finish(self) -> Result<(), LineFault> {
        match self.fields.keys().next() {
            None => Ok(()),
            Some(name) => Err(self.fault(name, UNSUPPORTED_FIELD)),
        }
    }
}

/// The names of fields that were left out, each once.
#[derive(Debug, Default)]
pub(crate) struct IgnoredFields(Vec<String>);

impl IgnoredFields {
    pub(crate) fn add(&mut self, name: &str) {
        if !self.0.iter().any(|known| known == name) {
            self.0.push(name.to_owned());
        }
    }

    pub(crate) fn names(&self) -> &[String] {
        &self.0
    }
}

//! Fields of a body that are read before the rest.

use crate::fault::ApiFault;
use axum::http::{HeaderName, HeaderValue};
use axum::response::Response;
use menagerie_openai::{LineFault, UNSUPPORTED_FIELD};
use serde_json::{Map, Value};

/// Fields that change no answer. Clients send them by themselves.
const WITHOUT_EFFECT: [&str; 8] = [
    "user",
    "metadata",
    "service_tier",
    "safety_identifier",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "verbosity",
];

/// Removes the fields that change no answer, and returns their names.
pub(super) fn take_ignored(fields: &mut Map<String, Value>) -> Result<Vec<String>, ApiFault> {
    fields.retain(|_, value| !value.is_null());
    let mut ignored = Vec::new();
    for name in WITHOUT_EFFECT {
        if fields.remove(name).is_some() {
            ignored.push(name.to_owned());
        }
    }
    match fields.remove("store") {
        None => {}
        Some(Value::Bool(false)) => ignored.push("store".to_owned()),
        Some(_) => {
            let reason = "store: answers are not stored; leave it out, or set it to false";
            return Err(ApiFault::new(400, reason).with_param("store"));
        }
    }
    Ok(ignored)
}

/// Lists ignored fields in an answer.
pub(super) fn list_ignored(response: &mut Response, ignored: &[String]) {
    if !ignored.is_empty()
        && let Ok(names) = HeaderValue::from_str(&ignored.join(", "))
    {
        response.headers_mut().insert(HeaderName::from_static("x-menagerie-ignored"), names);
    }
}

/// Whether and how an answer is streamed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct StreamFields {
    pub(super) is_stream: bool,
    /// Whether token counts follow the answer.
    pub(super) has_usage: bool,
}

impl StreamFields {
    /// Removes the fields `stream` and `stream_options`.
    pub(super) fn take(fields: &mut Map<String, Value>, ignored: &mut Vec<String>) -> Result<Self, ApiFault> {
        let wrong = |name: &str, reason: &str| Err(LineFault::of(name, reason).into());
        let is_stream = take_flag(fields, "stream")?;
        let mut has_usage = false;
        match fields.remove("stream_options") {
            None => {}
            Some(_) if !is_stream => return wrong("stream_options", "requires \"stream\": true"),
            Some(Value::Object(options)) => {
                for (name, value) in options {
                    let place = format!("stream_options.{name}");
                    match (name.as_str(), value) {
                        (_, Value::Null) => {}
                        ("include_usage", Value::Bool(wanted)) => has_usage = wanted,
                        ("include_usage", _) => return wrong(&place, "expected true or false"),
                        ("include_obfuscation", _) => ignored.push(place),
                        _ => return wrong(&place, UNSUPPORTED_FIELD),
                    }
                }
            }
            Some(_) => return wrong("stream_options", "expected an object"),
        }
        Ok(Self { is_stream, has_usage })
    }
}

/// Refuses fields that nothing has read.
pub(super) fn refuse_rest(fields: &Map<String, Value>) -> Result<(), ApiFault> {
    match fields.keys().next() {
        None => Ok(()),
        Some(name) => Err(LineFault::of(name, UNSUPPORTED_FIELD).into()),
    }
}

/// Removes and returns a boolean; `false` if it is missing.
pub(super) fn take_flag(fields: &mut Map<String, Value>, name: &str) -> Result<bool, LineFault> {
    match fields.remove(name) {
        None => Ok(false),
        Some(Value::Bool(value)) => Ok(value),
        Some(_) => Err(LineFault::of(name, "expected true or false")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn fields(value: Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn harmless_fields_are_listed_and_storing_is_refused() {
        let mut body = fields(json!({ "user": "u", "store": false, "seed": 1, "moderation": null }));
        assert_eq!(take_ignored(&mut body), Ok(vec!["user".to_owned(), "store".to_owned()]));
        assert_eq!(Value::from(body), json!({ "seed": 1 }));
        assert_eq!(take_ignored(&mut fields(json!({ "store": true }))).unwrap_err().status, 400);
    }

    #[test]
    fn options_of_a_stream_need_one() {
        let take = |value: Value| StreamFields::take(&mut fields(value), &mut Vec::new());
        let usage = json!({ "include_usage": true, "include_obfuscation": false });
        let read = take(json!({ "stream": true, "stream_options": usage })).unwrap();
        assert_eq!(read, StreamFields { is_stream: true, has_usage: true });
        for wrong in [
            json!({ "stream": 1 }),
            json!({ "stream_options": usage }),
            json!({ "stream": true, "stream_options": { "include_everything": true } }),
            json!({ "stream": true, "stream_options": [] }),
        ] {
            assert!(take(wrong.clone()).is_err(), "{wrong}");
        }
    }
}

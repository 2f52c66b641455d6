//! Fields of a body that are read before the rest.

use crate::chunk_writer::ChunkReports;
use crate::fault::ApiFault;
use axum::http::{HeaderName, HeaderValue};
use axum::response::Response;
use menagerie_openai::{LineFault, UNSUPPORTED_FIELD, take_harmless};
use serde_json::{Map, Value};

/// Removes the fields that change no answer, and returns their names.
pub(super) fn take_ignored(fields: &mut Map<String, Value>) -> Result<Vec<String>, ApiFault> {
    Ok(take_harmless(fields)?)
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

/// Removes the fields that ask for reports of llama-server: `return_progress` and `timings_per_token`.
pub(super) fn take_reports(
    fields: &mut Map<String, Value>,
    stream: StreamFields,
) -> Result<ChunkReports, LineFault> {
    let (progress, timings) =
        (take_flag(fields, "return_progress")?, take_flag(fields, "timings_per_token")?);
    if progress && !stream.is_stream {
        return Err(LineFault::of("return_progress", "requires \"stream\": true"));
    }
    Ok(ChunkReports { progress, timings })
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
    fn reports_are_of_a_stream() {
        let take = |value: Value, is_stream: bool| {
            take_reports(&mut fields(value), StreamFields { is_stream, has_usage: false })
        };
        let both = json!({ "return_progress": true, "timings_per_token": true });
        assert_eq!(take(both.clone(), true), Ok(ChunkReports { progress: true, timings: true }));
        assert_eq!(take(both, false).unwrap_err().field.as_deref(), Some("return_progress"));
        assert_eq!(take(json!({}), false), Ok(ChunkReports::default()));
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

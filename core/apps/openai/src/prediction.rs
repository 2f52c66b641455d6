//! The field `prediction` of a chat completion: a text that its answer is expected to be.

use crate::body::{LineFault, RequestBody, only_fields};
use menagerie::engine::{AnswerPrediction, DraftSource, TextPipeline};
use serde_json::Value;
use std::sync::Arc;

const FIELD: &str = "prediction";

/// Removes the field. Returns a source of guesses from its text, and from `others` where it says nothing. The field changes
/// no answer, so a model that cannot be drafted answers without it.
///
/// # Errors
/// The field is no text, or the model has no tokenizer.
pub(crate) fn predicted(
    body: &mut RequestBody,
    pipeline: &TextPipeline,
    others: Option<Arc<dyn DraftSource>>,
) -> Result<Option<Arc<dyn DraftSource>>, LineFault> {
    let Some(prediction) = body.take(FIELD) else { return Ok(others) };
    let text = text_of(&prediction)?;
    let tokenizer = pipeline.tokenizer().map_err(|error| LineFault::of(FIELD, error))?;
    let tokens = tokenizer.encode(&text).map_err(|error| LineFault::of(FIELD, error))?;
    match pipeline.check_drafts() {
        Ok(()) => Ok(Some(Arc::new(AnswerPrediction::new(tokens, others)))),
        Err(_) => Ok(others),
    }
}

/// The text of the field: `{"type": "content", "content": TEXT}`, or a list of text parts as content.
fn text_of(prediction: &Value) -> Result<String, LineFault> {
    let Some(fields) = prediction.as_object() else {
        return Err(LineFault::of(FIELD, "expected an object {\"type\": \"content\", \"content\": TEXT}"));
    };
    only_fields(FIELD, fields, &["type", "content"])?;
    if fields.get("type").and_then(Value::as_str) != Some("content") {
        return Err(LineFault::of("prediction.type", "expected \"content\""));
    }
    match fields.get("content") {
        Some(Value::String(text)) => Ok(text.clone()),
        Some(Value::Array(parts)) => {
            let part = |(at, part): (usize, &Value)| match (part["type"].as_str(), part["text"].as_str()) {
                (Some("text"), Some(text)) => Ok(text.to_owned()),
                (Some("text"), None) => {
                    Err(LineFault::of(&format!("prediction.content[{at}].text"), "expected a string"))
                }
                _ => Err(LineFault::of(&format!("prediction.content[{at}].type"), "expected \"text\"")),
            };
            parts.iter().enumerate().map(part).collect()
        }
        _ => Err(LineFault::of("prediction.content", "expected a string or a list of text parts")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_prediction_is_a_text_or_text_parts() {
        let parts = json!([{ "type": "text", "text": "a" }, { "type": "text", "text": "b" }]);
        for (content, text) in [(json!("one"), "one"), (json!(""), ""), (parts, "ab"), (json!([]), "")] {
            assert_eq!(text_of(&json!({ "type": "content", "content": content })).as_deref(), Ok(text));
        }
    }

    #[test]
    fn what_is_wrong_in_a_prediction_is_named() {
        for (prediction, field) in [
            (json!("text"), "prediction"),
            (json!({ "content": "a" }), "prediction.type"),
            (json!({ "type": "text", "content": "a" }), "prediction.type"),
            (json!({ "type": "content" }), "prediction.content"),
            (json!({ "type": "content", "content": 1 }), "prediction.content"),
            (json!({ "type": "content", "content": "a", "weight": 1 }), "prediction.weight"),
            (json!({ "type": "content", "content": ["a"] }), "prediction.content[0].type"),
            (json!({ "type": "content", "content": [{ "type": "text" }] }), "prediction.content[0].text"),
        ] {
            assert_eq!(text_of(&prediction).unwrap_err().field.as_deref(), Some(field), "{prediction}");
        }
    }
}

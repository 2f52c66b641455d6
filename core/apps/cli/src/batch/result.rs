//! [`BatchResult`]: collects the answers of a line and formats them as OpenAI does.

use crate::batch::body::LineFault;
use crate::batch::input::LinePlace;
use crate::batch::request::AnswerFormat;
use crate::chat::printer::AnswerToken;
use menagerie::engine::{GenerateError, Outcome, StopReason};
use serde_json::{Map, Value, json};
use std::time::{SystemTime, UNIX_EPOCH};

/// The answers of a line.
pub(crate) struct BatchResult {
    place: LinePlace,
    shape: AnswerFormat,
    /// By answer: tokens with their log probabilities, if requested.
    shown: Vec<Vec<AnswerToken>>,
    ended: Vec<Option<Result<Outcome, GenerateError>>>,
}

/// The `request_id` of a line: shows whether an answered line is still the same.
pub(crate) fn request_id(place: &LinePlace) -> String {
    format!("req_{:016x}", place.checksum)
}

impl BatchResult {
    /// A line with this number of answers, none of them complete.
    pub(crate) fn new(place: LinePlace, shape: AnswerFormat, answers: usize) -> Self {
        let ended = (0..answers).map(|_| None).collect();
        Self { place, shape, shown: vec![Vec::new(); answers], ended }
    }

    /// Adds a token of an answer.
    pub(crate) fn show(&mut self, answer: usize, shown: AnswerToken) {
        self.shown[answer].push(shown);
    }

    /// Ends an answer; returns whether it was the last one of the line.
    pub(crate) fn end(&mut self, answer: usize, result: Result<Outcome, GenerateError>) -> bool {
        self.ended[answer] = Some(result);
        self.ended.iter().all(Option::is_some)
    }

    /// The result line, and whether it is an answer. If one answer failed, the line is an error.
    pub(crate) fn line(self, model: &str) -> (Value, bool) {
        let outcomes: Result<Vec<Outcome>, GenerateError> = self.ended.into_iter().flatten().collect();
        let outcomes = match outcomes {
            Ok(outcomes) => outcomes,
            Err(error) => return (fault_line(&self.place, &fault_of(error)), false),
        };
        let mut body = match self.shape {
            AnswerFormat::Chat => {
                json!({ "id": format!("chatcmpl-{}", self.place.number), "object": "chat.completion" })
            }
            AnswerFormat::Completion => {
                json!({ "id": format!("cmpl-{}", self.place.number), "object": "text_completion" })
            }
        };
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        body["created"] = seconds.into();
        body["model"] = model.into();
        let choices = outcomes.iter().zip(&self.shown).enumerate();
        body["choices"] =
            choices.map(|(index, (outcome, shown))| choice(self.shape, index, outcome, shown)).collect();
        body["usage"] = usage(&outcomes);
        (line(&self.place, 200, body), true)
    }
}

/// Classifies an error: caused by the request, or by the model.
pub(crate) fn fault_of(error: GenerateError) -> LineFault {
    match error {
        GenerateError::EmptyPrompt
        | GenerateError::PromptTooLong { .. }
        | GenerateError::PastPositions { .. }
        | GenerateError::TokenOutOfRange { .. }
        | GenerateError::Sampling(_)
        | GenerateError::Chunked { .. } => LineFault::whole(error),
        other => LineFault::while_running(other),
    }
}

/// The result line of an error.
pub(crate) fn fault_line(place: &LinePlace, fault: &LineFault) -> Value {
    let kind = if fault.status == 400 { "invalid_request_error" } else { "server_error" };
    let error = json!({ "message": fault.message, "type": kind, "param": fault.field, "code": null });
    line(place, fault.status, json!({ "error": error }))
}

/// A result line.
pub(crate) fn line(place: &LinePlace, status: u16, body: Value) -> Value {
    json!({
        "id": format!("batch_req_{}", place.number),
        "custom_id": place.id,
        "response": { "status_code": status, "request_id": request_id(place), "body": body },
        "error": null,
    })
}

fn choice(shape: AnswerFormat, index: usize, outcome: &Outcome, shown: &[AnswerToken]) -> Value {
    let finish = match &outcome.reason {
        StopReason::EndOfGeneration(_) | StopReason::StopString(_) => "stop",
        StopReason::MaxTokens | StopReason::ContextFull => "length",
        other => other.name(),
    };
    let logprobs = (!shown.is_empty()).then(|| match shape {
        AnswerFormat::Chat => chat_logprobs(shown),
        AnswerFormat::Completion => completion_logprobs(shown),
    });
    let mut choice = json!({ "index": index, "logprobs": logprobs, "finish_reason": finish });
    match shape {
        AnswerFormat::Chat => {
            let mut message = json!({ "role": "assistant", "content": outcome.text });
            if !outcome.reasoning.is_empty() {
                message["reasoning_content"] = outcome.reasoning.clone().into();
            }
            choice["message"] = message;
        }
        AnswerFormat::Completion => choice["text"] = format!("{}{}", outcome.reasoning, outcome.text).into(),
    }
    choice
}

fn chat_logprobs(shown: &[AnswerToken]) -> Value {
    let token = |piece: &str, bytes: &[u8], logprob: Option<f32>| {
        // Control tokens have no bytes in the text: null, as OpenAI's reference says.
        let bytes = (!bytes.is_empty()).then_some(bytes);
        json!({ "token": piece, "logprob": logprob, "bytes": bytes })
    };
    let one = |shown: &AnswerToken| {
        let mut value = token(&shown.piece, &shown.bytes, shown.logprob);
        let top = shown.top.iter().map(|top| token(&top.piece, &top.bytes, Some(top.logprob)));
        value["top_logprobs"] = top.collect();
        value
    };
    json!({ "content": shown.iter().map(one).collect::<Vec<_>>() })
}

fn completion_logprobs(shown: &[AnswerToken]) -> Value {
    let mut offset = 0;
    let offsets = shown.iter().map(|shown| {
        offset += shown.piece.chars().count();
        offset - shown.piece.chars().count()
    });
    let top = |shown: &AnswerToken| -> Map<String, Value> {
        shown.top.iter().map(|top| (top.piece.clone(), json!(top.logprob))).collect()
    };
    json!({
        "text_offset": offsets.collect::<Vec<_>>(),
        "tokens": shown.iter().map(|shown| &shown.piece).collect::<Vec<_>>(),
        "token_logprobs": shown.iter().map(|shown| shown.logprob).collect::<Vec<_>>(),
        "top_logprobs": shown.iter().map(top).collect::<Vec<_>>(),
    })
}

/// Token counts; the prompt counts once for all answers.
fn usage(outcomes: &[Outcome]) -> Value {
    let prompt = outcomes.first().map_or(0, |outcome| outcome.statistics.prompt_tokens);
    let cached = outcomes.iter().map(|outcome| outcome.statistics.cached_tokens).min().unwrap_or(0);
    let made: usize = outcomes.iter().map(|outcome| outcome.statistics.generated_tokens).sum();
    json!({
        "prompt_tokens": prompt, "completion_tokens": made, "total_tokens": prompt + made,
        "prompt_tokens_details": { "cached_tokens": cached },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use menagerie::engine::TokenLogprob;

    /// A character of two tokens has the bytes of each; a control token has none (OpenAI's reference of chat
    /// completions: `bytes` is null where a token has no bytes).
    #[test]
    fn log_probabilities_have_the_bytes_of_tokens() {
        let end = TokenLogprob { id: 2, piece: "</s>".to_owned(), bytes: Vec::new(), logprob: -1.0 };
        let half = |bytes: &[u8]| AnswerToken {
            id: 1,
            piece: "\u{fffd}".to_owned(),
            bytes: bytes.to_vec(),
            logprob: Some(-0.5),
            top: vec![end.clone()],
        };
        let value = chat_logprobs(&[half(&[0xC3]), half(&[0xA9])]);
        let content = &value["content"];
        assert_eq!((&content[0]["bytes"], &content[1]["bytes"]), (&json!([0xC3]), &json!([0xA9])));
        assert_eq!(content[0]["top_logprobs"], json!([{ "token": "</s>", "logprob": -1.0, "bytes": null }]));
    }
}

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
    /// The text of the prompt, if answers begin with it.
    echo: Option<String>,
    /// Tokens of the prompt with their log probabilities, if requested.
    prompt: Vec<AnswerToken>,
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
        let shown = vec![Vec::new(); answers];
        Self { place, shape, echo: None, prompt: Vec::new(), shown, ended }
    }

    /// The same with answers that begin with this text of the prompt.
    pub(crate) fn with_echo(self, echo: Option<String>) -> Self {
        Self { echo, ..self }
    }

    /// Adds a token of the prompt.
    pub(crate) fn show_prompt(&mut self, shown: AnswerToken) {
        self.prompt.push(shown);
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
    pub(crate) fn line(mut self, model: &str) -> (Value, bool) {
        let ended = std::mem::take(&mut self.ended).into_iter();
        let outcomes: Result<Vec<Outcome>, GenerateError> = ended.flatten().collect();
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
        body["choices"] =
            outcomes.iter().enumerate().map(|(index, outcome)| self.choice(index, outcome)).collect();
        body["usage"] = usage(&outcomes);
        (line(&self.place, 200, body), true)
    }

    fn choice(&self, index: usize, outcome: &Outcome) -> Value {
        let finish = match &outcome.reason {
            StopReason::EndOfGeneration(_) | StopReason::StopString(_) if !outcome.tool_calls.is_empty() => {
                "tool_calls"
            }
            StopReason::EndOfGeneration(_) | StopReason::StopString(_) | StopReason::Complete => "stop",
            StopReason::MaxTokens | StopReason::ContextFull => "length",
            other => other.name(),
        };
        let shown = &self.shown[index];
        let is_shown = !shown.is_empty() || !self.prompt.is_empty();
        let logprobs = is_shown.then(|| match self.shape {
            AnswerFormat::Chat => chat_logprobs(shown),
            AnswerFormat::Completion => self.completion_logprobs(shown),
        });
        let mut choice = json!({ "index": index, "logprobs": logprobs, "finish_reason": finish });
        let Outcome { text, reasoning, .. } = outcome;
        match self.shape {
            AnswerFormat::Chat => {
                let mut message = json!({ "role": "assistant", "content": text });
                if !reasoning.is_empty() {
                    message["reasoning_content"] = reasoning.clone().into();
                }
                if !outcome.tool_calls.is_empty() {
                    message["tool_calls"] = json!(outcome.tool_calls);
                    if text.is_empty() {
                        message["content"] = Value::Null;
                    }
                }
                choice["message"] = message;
            }
            AnswerFormat::Completion => {
                let echo = self.echo.as_deref().unwrap_or_default();
                choice["text"] = format!("{echo}{reasoning}{text}").into();
            }
        }
        choice
    }

    /// The tokens of the prompt, if they are requested, and of an answer.
    fn completion_logprobs(&self, shown: &[AnswerToken]) -> Value {
        // Characters of the tokens of the prompt that its text does not have: a space that the vocabulary puts before a text.
        let echoed = self.echo.as_deref().map_or(0, |echo| echo.chars().count());
        let added = self.prompt.iter().map(started).sum::<usize>().saturating_sub(echoed);
        let shown: Vec<&AnswerToken> = self.prompt.iter().chain(shown).collect();
        let offsets = shown.iter().scan(0, |next: &mut usize, token| {
            let offset = *next;
            *next += started(token);
            Some(offset.saturating_sub(added))
        });
        // The first token of a prompt has no probability.
        let top = |shown: &&AnswerToken| -> Option<Map<String, Value>> {
            shown.logprob?;
            Some(shown.top.iter().map(|top| (top.piece.clone(), json!(top.logprob))).collect())
        };
        json!({
            "text_offset": offsets.collect::<Vec<_>>(),
            "tokens": shown.iter().map(|shown| &shown.piece).collect::<Vec<_>>(),
            "token_logprobs": shown.iter().map(|shown| shown.logprob).collect::<Vec<_>>(),
            "top_logprobs": shown.iter().map(top).collect::<Vec<_>>(),
        })
    }
}

/// The number of characters that begin in a token.
fn started(token: &AnswerToken) -> usize {
    // Other bytes continue a character (RFC 3629).
    token.bytes.iter().filter(|byte| **byte & 0xC0 != 0x80).count()
}

/// Classifies an error: caused by the request, or by the model.
pub(crate) fn fault_of(error: GenerateError) -> LineFault {
    match error {
        GenerateError::EmptyPrompt
        | GenerateError::PromptTooLong { .. }
        | GenerateError::PastPositions { .. }
        | GenerateError::TokenOutOfRange { .. }
        | GenerateError::Sampling(_)
        | GenerateError::Options(_)
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

    /// Options that do not go together are a fault of the line.
    #[test]
    fn a_fault_of_options_is_one_of_the_request() {
        assert_eq!(fault_of(GenerateError::Options("a constraint and tools".to_owned())).status, 400);
        assert_eq!(fault_of(GenerateError::Cancelled).status, 500);
    }

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

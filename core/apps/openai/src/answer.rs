//! Answers of the engine in OpenAI's JSON.

use crate::answer_token::AnswerToken;
use crate::body::LineFault;
use menagerie::engine::{GenerateError, Outcome, StopReason};
use serde_json::{Map, Value, json};

/// The log probability of a token that cannot be sampled: JSON has no infinities.
const IMPOSSIBLE: f32 = -9999.0;

/// `finish_reason` of an answer.
pub fn finish_reason(outcome: &Outcome) -> &'static str {
    match &outcome.reason {
        StopReason::EndOfGeneration(_)
        | StopReason::StopString(_)
        | StopReason::StopToken(_)
        | StopReason::Indentation
        | StopReason::Complete => match outcome.tool_calls.is_empty() {
            true => "stop",
            false => "tool_calls",
        },
        StopReason::MaxTokens | StopReason::ContextFull => "length",
        other => other.name(),
    }
}

/// The message of a chat completion.
pub fn chat_message(outcome: &Outcome) -> Value {
    let Outcome { text, reasoning, .. } = outcome;
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
    message
}

/// `logprobs` of a completion: the tokens of the prompt, if the answer begins with its text `echo`, and of the answer.
pub fn completion_logprobs(echo: Option<&str>, prompt: &[AnswerToken], shown: &[AnswerToken]) -> Value {
    // Characters of the tokens of the prompt that its text does not have: a space that the vocabulary puts before a text.
    let echoed = echo.map_or(0, |echo| echo.chars().count());
    let added = prompt.iter().map(started).sum::<usize>().saturating_sub(echoed);
    let shown: Vec<&AnswerToken> = prompt.iter().chain(shown).collect();
    let offsets = shown.iter().scan(0, |next: &mut usize, token| {
        let offset = *next;
        *next += started(token);
        Some(offset.saturating_sub(added))
    });
    // The first token of a prompt has no probability.
    let top = |shown: &&AnswerToken| -> Option<Map<String, Value>> {
        shown.logprob?;
        Some(shown.top.iter().map(|top| (top.piece.clone(), json!(finite(top.logprob)))).collect())
    };
    json!({
        "text_offset": offsets.collect::<Vec<_>>(),
        "tokens": shown.iter().map(|shown| &shown.piece).collect::<Vec<_>>(),
        "token_logprobs": shown.iter().map(|shown| shown.logprob.map(finite)).collect::<Vec<_>>(),
        "top_logprobs": shown.iter().map(top).collect::<Vec<_>>(),
    })
}

/// The number of characters that begin in a token.
fn started(token: &AnswerToken) -> usize {
    // Other bytes continue a character (RFC 3629).
    token.bytes.iter().filter(|byte| **byte & 0xC0 != 0x80).count()
}

fn finite(logprob: f32) -> f32 {
    if logprob.is_finite() { logprob } else { IMPOSSIBLE }
}

/// Classifies an error: caused by the request, or by the model.
pub fn fault_of(error: GenerateError) -> LineFault {
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

/// `logprobs` of a chat completion.
pub fn chat_logprobs(shown: &[AnswerToken]) -> Value {
    let token = |piece: &str, bytes: &[u8], logprob: Option<f32>| {
        // Control tokens have no bytes in the text: null, as OpenAI's reference says.
        let bytes = (!bytes.is_empty()).then_some(bytes);
        json!({ "token": piece, "logprob": logprob.map(finite), "bytes": bytes })
    };
    let one = |shown: &AnswerToken| {
        let mut value = token(&shown.piece, &shown.bytes, shown.logprob);
        let top = shown.top.iter().map(|top| token(&top.piece, &top.bytes, Some(top.logprob)));
        value["top_logprobs"] = top.collect();
        value
    };
    json!({ "content": shown.iter().map(one).collect::<Vec<_>>() })
}

/// Token counts; the prompt counts once for all answers. Of a predicted answer, those tokens count that steps computed as
/// guesses: the accepted ones became tokens of the answer.
pub fn answer_usage(outcomes: &[Outcome]) -> Value {
    let prompt = outcomes.first().map_or(0, |outcome| outcome.statistics.prompt_tokens);
    let cached = outcomes.iter().map(|outcome| outcome.statistics.cached_tokens).min().unwrap_or(0);
    let made: usize = outcomes.iter().map(|outcome| outcome.statistics.generated_tokens).sum();
    let drafted: usize = outcomes.iter().map(|outcome| outcome.statistics.drafted_predictions).sum();
    let accepted: usize = outcomes.iter().map(|outcome| outcome.statistics.accepted_predictions).sum();
    json!({
        "prompt_tokens": prompt, "completion_tokens": made, "total_tokens": prompt + made,
        "prompt_tokens_details": { "cached_tokens": cached },
        "completion_tokens_details": {
            "accepted_prediction_tokens": accepted, "rejected_prediction_tokens": drafted - accepted,
        },
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
    /// completions: `bytes` is null where a token has no bytes). JSON has no infinities.
    #[test]
    fn log_probabilities_have_the_bytes_of_tokens() {
        let end = TokenLogprob { id: 2, piece: "</s>".to_owned(), bytes: Vec::new(), logprob: -1.0 };
        let half = |bytes: &[u8], logprob: f32| AnswerToken {
            id: 1,
            piece: "\u{fffd}".to_owned(),
            bytes: bytes.to_vec(),
            logprob: Some(logprob),
            top: vec![end.clone()],
        };
        let value = chat_logprobs(&[half(&[0xC3], -0.5), half(&[0xA9], f32::NEG_INFINITY)]);
        let content = &value["content"];
        assert_eq!((&content[0]["bytes"], &content[1]["bytes"]), (&json!([0xC3]), &json!([0xA9])));
        assert_eq!((&content[0]["logprob"], &content[1]["logprob"]), (&json!(-0.5), &json!(-9999.0)));
        assert_eq!(content[0]["top_logprobs"], json!([{ "token": "</s>", "logprob": -1.0, "bytes": null }]));
    }
}

//! [`MessageWriter`]: answers as Anthropic's messages.

use super::error::anthropic_error;
use crate::answer_fold::AnswerDelta;
use crate::answer_writer::{AnswerWriter, add_event};
use crate::answering::{AnswerChange, Answering};
use crate::fault::ApiFault;
use crate::whole_answer::WholeAnswer;
use menagerie::engine::{Outcome, StopReason};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// Writes the one answer of a request as a message.
pub(crate) struct MessageWriter {
    /// The id of the message.
    id: String,
    /// The id of the request, for errors.
    request_id: String,
    model: String,
    prompt_tokens: usize,
    has_begun: bool,
    /// The number of the next block, or of the open one.
    index: usize,
    open: Option<OpenBlock>,
}

/// A block that has begun.
enum OpenBlock {
    Text,
    /// With its text so far, for the signature.
    Thinking(Sha256),
    Call,
}

impl MessageWriter {
    pub(crate) fn new(id: String, request_id: String, model: String, prompt_tokens: usize) -> Self {
        Self { id, request_id, model, prompt_tokens, has_begun: false, index: 0, open: None }
    }

    fn message(&self, content: Value, stop: (Value, Value), usage: Value) -> Value {
        json!({
            "id": self.id, "type": "message", "role": "assistant", "model": self.model, "content": content,
            "stop_reason": stop.0, "stop_sequence": stop.1, "usage": usage,
        })
    }

    /// Begins a block.
    fn open(&mut self, open: OpenBlock, block: &Value, text: &mut String) {
        self.close(text);
        event(text, &json!({ "type": "content_block_start", "index": self.index, "content_block": block }));
        self.open = Some(open);
    }

    fn delta(&self, delta: &Value, text: &mut String) {
        event(text, &json!({ "type": "content_block_delta", "index": self.index, "delta": delta }));
    }

    /// Ends the open block.
    fn close(&mut self, text: &mut String) {
        let Some(open) = self.open.take() else { return };
        if let OpenBlock::Thinking(hash) = open {
            self.delta(&json!({ "type": "signature_delta", "signature": written(hash) }), text);
        }
        event(text, &json!({ "type": "content_block_stop", "index": self.index }));
        self.index += 1;
    }

    fn add(&mut self, delta: AnswerDelta, text: &mut String) {
        match delta {
            AnswerDelta::Text { text: more, .. } => {
                if !matches!(self.open, Some(OpenBlock::Text)) {
                    self.open(OpenBlock::Text, &json!({ "type": "text", "text": "" }), text);
                }
                self.delta(&json!({ "type": "text_delta", "text": more }), text);
            }
            AnswerDelta::Reasoning(more) => {
                if !matches!(self.open, Some(OpenBlock::Thinking(_))) {
                    let block = json!({ "type": "thinking", "thinking": "", "signature": "" });
                    self.open(OpenBlock::Thinking(Sha256::new()), &block, text);
                }
                if let Some(OpenBlock::Thinking(hash)) = &mut self.open {
                    hash.update(&more);
                }
                self.delta(&json!({ "type": "thinking_delta", "thinking": more }), text);
            }
            AnswerDelta::CallBegin { id, name, .. } => {
                let block = json!({ "type": "tool_use", "id": id, "name": name, "input": {} });
                self.open(OpenBlock::Call, &block, text);
            }
            AnswerDelta::CallArguments { text: more, .. } => {
                self.delta(&json!({ "type": "input_json_delta", "partial_json": more }), text);
            }
            AnswerDelta::CallEnd { .. } => self.close(text),
            AnswerDelta::EndToken(_) | AnswerDelta::Prompt { .. } => {}
        }
    }

    /// The message without content. Of the tokens of its prompt, `cached` need not be computed.
    fn begin_message(&mut self, cached: usize, text: &mut String) {
        if !std::mem::replace(&mut self.has_begun, true) {
            let usage = usage(self.prompt_tokens, cached, 0);
            let message = self.message(json!([]), (Value::Null, Value::Null), usage);
            event(text, &json!({ "type": "message_start", "message": message }));
            text.push_str(PING);
        }
    }
}

const PING: &str = "event: ping\ndata: {\"type\":\"ping\"}\n\n";

impl AnswerWriter for MessageWriter {
    /// The message begins when the first part of its prompt is computed: then it is known which tokens need not be.
    fn begin(&mut self, _text: &mut String) {}

    fn change(&mut self, change: AnswerChange, answering: &Answering, text: &mut String) {
        match &change {
            AnswerChange::Delta(_, AnswerDelta::Prompt { cached, .. }) => self.begin_message(*cached, text),
            _ => self.begin_message(0, text),
        }
        match change {
            AnswerChange::Delta(_, delta) => self.add(delta, text),
            AnswerChange::Finish(choice) => {
                self.close(text);
                let Some(outcome) = answering.outcome(choice) else { return };
                let (reason, string) = stop_of(outcome);
                let delta = json!({ "stop_reason": reason, "stop_sequence": string });
                event(text, &json!({ "type": "message_delta", "delta": delta, "usage": usage_of(outcome) }));
            }
        }
    }

    fn end(&mut self, _answering: &Answering, text: &mut String) {
        event(text, &json!({ "type": "message_stop" }));
    }

    fn fault(&mut self, fault: &ApiFault, text: &mut String) {
        event(text, &anthropic_error(fault, &self.request_id));
    }

    fn waiting(&self) -> &'static str {
        // Clients want no event before the message.
        if self.has_begun { PING } else { ": waiting\n\n" }
    }

    fn whole(&self, whole: &WholeAnswer, answering: &Answering) -> Value {
        let mut content = Vec::new();
        if let Some(choice) = whole.choices.first() {
            if !choice.reasoning.is_empty() {
                let signature = written(Sha256::new_with_prefix(&choice.reasoning));
                content.push(
                    json!({ "type": "thinking", "thinking": choice.reasoning, "signature": signature }),
                );
            }
            if !choice.text.is_empty() {
                content.push(json!({ "type": "text", "text": choice.text }));
            }
            for call in choice.complete_calls() {
                let input: Value = serde_json::from_str(&call.arguments).unwrap_or_default();
                content.push(json!({ "type": "tool_use", "id": call.id, "name": call.name, "input": input }));
            }
        }
        let (stop, usage) = match answering.outcome(0) {
            Some(outcome) => {
                let (reason, string) = stop_of(outcome);
                ((json!(reason), json!(string)), usage_of(outcome))
            }
            None => ((Value::Null, Value::Null), usage(self.prompt_tokens, 0, 0)),
        };
        self.message(content.into(), stop, usage)
    }
}

/// An event whose name is its type.
fn event(text: &mut String, data: &Value) {
    add_event(text, data["type"].as_str(), data);
}

/// A hash of reasoning. Anthropic's signature is one of a text that is hidden; here nothing is, and it only fills the
/// field that clients send back.
fn written(hash: Sha256) -> String {
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Why an answer ended, and the stop string that did it.
fn stop_of(outcome: &Outcome) -> (&'static str, Option<&str>) {
    match &outcome.reason {
        StopReason::StopString(string) => ("stop_sequence", Some(string)),
        StopReason::MaxTokens => ("max_tokens", None),
        StopReason::ContextFull => ("model_context_window_exceeded", None),
        _ if !outcome.tool_calls.is_empty() => ("tool_use", None),
        _ => ("end_turn", None),
    }
}

/// Token counts: of the prompt those that were computed and those that were not, and of the answer.
fn usage(prompt: usize, cached: usize, made: usize) -> Value {
    json!({
        "input_tokens": prompt.saturating_sub(cached), "cache_creation_input_tokens": 0, "cache_read_input_tokens": cached,
        "output_tokens": made,
    })
}

fn usage_of(outcome: &Outcome) -> Value {
    let statistics = &outcome.statistics;
    usage(statistics.prompt_tokens, statistics.cached_tokens, statistics.generated_tokens)
}

//! [`ResponseWriter`]: responses (`/v1/responses`) in OpenAI's format.

use crate::answer_writer::{AnswerWriter, add_event};
use crate::answering::{AnswerChange, Answering};
use crate::fault::ApiFault;
use crate::response_output::{ItemEvent, ResponseOutput};
use crate::whole_answer::WholeAnswer;
use menagerie_openai::finish_reason;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// What every form of a response has.
#[derive(Clone, Debug)]
pub(crate) struct ResponseHead {
    /// The id without its prefix.
    pub(crate) id: String,
    /// Seconds since 1970.
    pub(crate) created: u64,
    pub(crate) model: String,
    /// Fields of the request that the answer repeats.
    pub(crate) repeated: Map<String, Value>,
    /// Names of tools whose input is a text.
    pub(crate) custom: BTreeSet<String>,
}

/// Writes events, or a whole response.
pub(crate) struct ResponseWriter {
    head: ResponseHead,
    output: ResponseOutput,
    /// The number of the next event.
    next: u64,
}

/// How a response ended.
struct ResponseEnd {
    status: &'static str,
    error: Value,
    usage: Value,
}

impl ResponseWriter {
    pub(crate) fn new(head: ResponseHead) -> Self {
        let output = ResponseOutput::new(&head.id, head.custom.clone());
        Self { head, output, next: 0 }
    }

    fn add(&mut self, events: Vec<ItemEvent>, text: &mut String) {
        for (name, mut data) in events {
            data["type"] = json!(name);
            data["sequence_number"] = json!(self.next);
            self.next += 1;
            add_event(text, Some(name), &data);
        }
    }

    /// An event with the whole response.
    fn whole_event(&self, name: &'static str, end: &ResponseEnd) -> ItemEvent {
        (name, json!({ "response": self.head.json(self.output.json(), end) }))
    }
}

impl ResponseHead {
    fn json(&self, output: Vec<Value>, end: &ResponseEnd) -> Value {
        let ResponseEnd { status, error, usage } = end;
        let is_cut = *status == "incomplete";
        let mut response = json!({
            "id": format!("resp_{}", self.id), "object": "response", "created_at": self.created, "status": status,
            "error": error, "incomplete_details": is_cut.then(|| json!({ "reason": "max_output_tokens" })),
            "model": self.model, "output": output, "usage": usage,
            "background": false, "max_tool_calls": null, "previous_response_id": null, "prompt": null,
            "safety_identifier": null, "service_tier": "default", "store": false, "user": null,
        });
        if let Value::Object(fields) = &mut response {
            fields.extend(self.repeated.clone());
        }
        response
    }
}

impl ResponseEnd {
    fn of(answering: &Answering) -> Self {
        let is_cut = answering.outcome(0).is_some_and(|outcome| finish_reason(outcome) == "length");
        let status = if is_cut { "incomplete" } else { "completed" };
        Self { status, error: Value::Null, usage: usage_of(&answering.usage()) }
    }

    fn in_progress() -> Self {
        Self { status: "in_progress", error: Value::Null, usage: Value::Null }
    }
}

/// Token counts of a chat completion as those of a response.
fn usage_of(usage: &Value) -> Value {
    let cached = &usage["prompt_tokens_details"]["cached_tokens"];
    json!({
        "input_tokens": usage["prompt_tokens"],
        // States are kept of everything, and nothing is charged for it.
        "input_tokens_details": { "cached_tokens": cached, "cache_write_tokens": 0 },
        "output_tokens": usage["completion_tokens"],
        "output_tokens_details": { "reasoning_tokens": usage["completion_tokens_details"]["reasoning_tokens"] },
        "total_tokens": usage["total_tokens"],
    })
}

impl AnswerWriter for ResponseWriter {
    fn begin(&mut self, text: &mut String) {
        let events = ["response.created", "response.in_progress"];
        let events = events.map(|name| self.whole_event(name, &ResponseEnd::in_progress()));
        self.add(events.into(), text);
    }

    fn change(&mut self, change: AnswerChange, _: &Answering, text: &mut String) {
        // The end of the only choice is the end of all.
        if let AnswerChange::Delta(_, delta) = change {
            let events = self.output.add(delta);
            self.add(events, text);
        }
    }

    fn end(&mut self, answering: &Answering, text: &mut String) {
        let end = ResponseEnd::of(answering);
        let mut events = self.output.end(end.status);
        let name = if end.status == "incomplete" { "response.incomplete" } else { "response.completed" };
        events.push(self.whole_event(name, &end));
        self.add(events, text);
    }

    fn fault(&mut self, fault: &ApiFault, text: &mut String) {
        let error = json!({ "code": "server_error", "message": fault.message });
        let end = ResponseEnd { status: "failed", error, usage: Value::Null };
        let mut events = self.output.end("incomplete");
        events.push(self.whole_event("response.failed", &end));
        self.add(events, text);
    }

    fn whole(&self, whole: &WholeAnswer, answering: &Answering) -> Value {
        let end = ResponseEnd::of(answering);
        let mut output = ResponseOutput::new(&self.head.id, self.head.custom.clone());
        for delta in whole.choices.iter().flat_map(|choice| &choice.deltas) {
            output.add(delta.clone());
        }
        output.end(end.status);
        self.head.json(output.json(), &end)
    }
}

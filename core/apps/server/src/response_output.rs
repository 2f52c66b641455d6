//! [`ResponseOutput`]: the items of a response, made of the changes of its answer.

use crate::answer_fold::AnswerDelta;
use menagerie_openai::{AnswerToken, chat_logprobs};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// An event of a stream without its number: its name and its fields.
pub(crate) type ItemEvent = (&'static str, Value);

/// The items so far.
#[derive(Debug, Default)]
pub(crate) struct ResponseOutput {
    /// What the ids of items end with.
    id: String,
    /// Names of tools whose input is a text.
    custom: BTreeSet<String>,
    items: Vec<OutputItem>,
    /// Whether the last item may change.
    is_open: bool,
}

#[derive(Debug)]
struct OutputItem {
    id: String,
    kind: ItemKind,
    /// Its text or its arguments.
    text: String,
    /// Log probabilities of the text, if they are requested.
    logprobs: Vec<Value>,
    status: &'static str,
}

#[derive(Debug)]
enum ItemKind {
    Reasoning,
    Message,
    Call {
        id: String,
        name: String,
    },
    /// Of a tool whose input is a text.
    CustomCall {
        id: String,
        name: String,
    },
}

impl ResponseOutput {
    /// No items yet.
    pub(crate) fn new(id: &str, custom: BTreeSet<String>) -> Self {
        Self { id: id.to_owned(), custom, ..Self::default() }
    }

    /// The items.
    pub(crate) fn json(&self) -> Vec<Value> {
        self.items.iter().map(OutputItem::json).collect()
    }

    /// The events of a change.
    pub(crate) fn add(&mut self, delta: AnswerDelta) -> Vec<ItemEvent> {
        match delta {
            AnswerDelta::Reasoning(text) => self.more(ItemKind::Reasoning, &text, &[]),
            AnswerDelta::Text { text, tokens } => self.more(ItemKind::Message, &text, &tokens),
            AnswerDelta::CallBegin { id, name, .. } => {
                let mut events = self.close("completed");
                let kind = match self.custom.contains(&name) {
                    true => ItemKind::CustomCall { id, name },
                    false => ItemKind::Call { id, name },
                };
                events.extend(self.open(kind));
                events
            }
            AnswerDelta::CallArguments { text, .. } => {
                let place = self.items.len().saturating_sub(1);
                let Some(item) = self.items.last_mut().filter(|_| self.is_open) else { return Vec::new() };
                item.text.push_str(&text);
                match item.kind {
                    // The input is known when its JSON is complete.
                    ItemKind::CustomCall { .. } => Vec::new(),
                    _ => vec![item.event(
                        place,
                        "response.function_call_arguments.delta",
                        json!({ "delta": text }),
                    )],
                }
            }
            AnswerDelta::CallEnd { .. } => self.close("completed"),
            AnswerDelta::EndToken(_) | AnswerDelta::Prompt { .. } => Vec::new(),
        }
    }

    /// The events of the end: what is open ends with this status, or is incomplete if it is a call.
    pub(crate) fn end(&mut self, status: &'static str) -> Vec<ItemEvent> {
        let is_call = |item: &OutputItem| !matches!(item.kind, ItemKind::Reasoning | ItemKind::Message);
        match self.items.last().is_some_and(is_call) {
            true => self.close("incomplete"),
            false => self.close(status),
        }
    }

    fn more(&mut self, kind: ItemKind, text: &str, tokens: &[AnswerToken]) -> Vec<ItemEvent> {
        let is_same = |item: &OutputItem| std::mem::discriminant(&item.kind) == std::mem::discriminant(&kind);
        let mut events = Vec::new();
        if !self.is_open || !self.items.last().is_some_and(is_same) {
            events = self.close("completed");
            events.extend(self.open(kind));
        }
        let place = self.items.len().saturating_sub(1);
        let Some(item) = self.items.last_mut() else { return events };
        item.text.push_str(text);
        let logprobs = logprobs_of(tokens);
        item.logprobs.extend(logprobs.clone());
        events.push(match item.kind {
            ItemKind::Reasoning => {
                let data = json!({ "content_index": 0, "delta": text });
                item.event(place, "response.reasoning_text.delta", data)
            }
            _ => {
                let data = json!({ "content_index": 0, "delta": text, "logprobs": logprobs });
                item.event(place, "response.output_text.delta", data)
            }
        });
        events
    }

    fn open(&mut self, kind: ItemKind) -> Vec<ItemEvent> {
        let place = self.items.len();
        let prefix = match kind {
            ItemKind::Reasoning => "rs",
            ItemKind::Message => "msg",
            ItemKind::Call { .. } => "fc",
            ItemKind::CustomCall { .. } => "ctc",
        };
        let id = format!("{prefix}_{}{place:02x}", self.id);
        let item = OutputItem { id, kind, text: String::new(), logprobs: Vec::new(), status: "in_progress" };
        let mut shown = item.json();
        // Its content comes by events of its own.
        if shown.get("content").is_some() {
            shown["content"] = json!([]);
        }
        let mut events =
            vec![("response.output_item.added", json!({ "output_index": place, "item": shown }))];
        if let ItemKind::Message = item.kind {
            let data = json!({ "content_index": 0, "part": item.part() });
            events.push(item.event(place, "response.content_part.added", data));
        }
        self.items.push(item);
        self.is_open = true;
        events
    }

    /// Ends the last item, if it is open.
    fn close(&mut self, status: &'static str) -> Vec<ItemEvent> {
        let place = self.items.len().saturating_sub(1);
        let Some(item) = self.items.last_mut().filter(|_| self.is_open) else { return Vec::new() };
        self.is_open = false;
        item.status = status;
        let mut events = Vec::new();
        match &item.kind {
            ItemKind::Reasoning => {
                let data = json!({ "content_index": 0, "text": item.text });
                events.push(item.event(place, "response.reasoning_text.done", data));
            }
            ItemKind::Message => {
                let data = json!({ "content_index": 0, "text": item.text, "logprobs": item.logprobs });
                events.push(item.event(place, "response.output_text.done", data));
                let data = json!({ "content_index": 0, "part": item.part() });
                events.push(item.event(place, "response.content_part.done", data));
            }
            // A call that is cut off is not one that somebody may run.
            _ if status != "completed" => {}
            ItemKind::Call { name, .. } => {
                let data = json!({ "arguments": item.text, "name": name });
                events.push(item.event(place, "response.function_call_arguments.done", data));
            }
            ItemKind::CustomCall { .. } => {
                let input = item.input();
                events.push(item.event(
                    place,
                    "response.custom_tool_call_input.delta",
                    json!({ "delta": input }),
                ));
                events.push(item.event(
                    place,
                    "response.custom_tool_call_input.done",
                    json!({ "input": input }),
                ));
            }
        }
        events.push(("response.output_item.done", json!({ "output_index": place, "item": item.json() })));
        events
    }
}

impl OutputItem {
    fn event(&self, place: usize, name: &'static str, mut data: Value) -> ItemEvent {
        data["item_id"] = json!(self.id);
        data["output_index"] = json!(place);
        (name, data)
    }

    fn part(&self) -> Value {
        json!({ "type": "output_text", "text": self.text, "annotations": [], "logprobs": self.logprobs })
    }

    /// The text in the arguments of a call; empty if it is cut off.
    fn input(&self) -> String {
        let arguments: Option<Value> = serde_json::from_str(&self.text).ok();
        arguments.and_then(|arguments| arguments["input"].as_str().map(str::to_owned)).unwrap_or_default()
    }

    fn json(&self) -> Value {
        let Self { id, text, status, .. } = self;
        match &self.kind {
            ItemKind::Reasoning => {
                let content = json!([{ "type": "reasoning_text", "text": text }]);
                json!({ "id": id, "type": "reasoning", "summary": [], "content": content, "status": status })
            }
            ItemKind::Message => {
                let content = json!([self.part()]);
                json!({ "id": id, "type": "message", "role": "assistant", "content": content, "status": status })
            }
            ItemKind::Call { id: call, name } => json!({
                "id": id, "type": "function_call", "call_id": call, "name": name, "arguments": text, "status": status,
            }),
            ItemKind::CustomCall { id: call, name } => json!({
                "id": id, "type": "custom_tool_call", "call_id": call, "name": name, "input": self.input(),
                "status": status,
            }),
        }
    }
}

/// Log probabilities as a response has them. Here bytes are a list, also where a token has none.
fn logprobs_of(tokens: &[AnswerToken]) -> Vec<Value> {
    let mut all = match chat_logprobs(tokens)["content"].take() {
        Value::Array(all) => all,
        _ => Vec::new(),
    };
    for token in &mut all {
        let Value::Array(top) = token["top_logprobs"].take() else { continue };
        *token = with_bytes(token.take());
        token["top_logprobs"] = top.into_iter().map(with_bytes).collect();
    }
    all
}

fn with_bytes(mut token: Value) -> Value {
    if token["bytes"].is_null() {
        token["bytes"] = json!([]);
    }
    token
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(name: &str) -> AnswerDelta {
        AnswerDelta::CallBegin { index: 0, id: "c".to_owned(), name: name.to_owned() }
    }

    fn arguments(text: &str) -> AnswerDelta {
        AnswerDelta::CallArguments { index: 0, text: text.to_owned() }
    }

    /// A call that is cut off has no event that says it is done, and is no complete item.
    #[test]
    fn a_call_that_is_cut_off_is_incomplete() {
        for custom in [false, true] {
            let custom = if custom { BTreeSet::from(["f".to_owned()]) } else { BTreeSet::new() };
            let mut output = ResponseOutput::new("x", custom);
            output.add(call("f"));
            output.add(arguments("{\"input\": \"a"));
            let events: Vec<&str> = output.end("incomplete").iter().map(|(name, _)| *name).collect();
            assert_eq!(events, ["response.output_item.done"]);
            assert_eq!(output.json()[0]["status"], "incomplete");
        }
    }

    #[test]
    fn the_input_of_a_custom_tool_is_a_text() {
        let mut output = ResponseOutput::new("x", BTreeSet::from(["g".to_owned()]));
        output.add(call("g"));
        assert!(output.add(arguments("{\"input\": \"a\\nb\"}")).is_empty());
        let events = output.add(AnswerDelta::CallEnd { index: 0 });
        let names: Vec<&str> = events.iter().map(|(name, _)| *name).collect();
        let input = "response.custom_tool_call_input";
        assert_eq!(
            names,
            [&*format!("{input}.delta"), &format!("{input}.done"), "response.output_item.done"]
        );
        assert_eq!((&events[1].1["input"], &output.json()[0]["input"]), (&json!("a\nb"), &json!("a\nb")));
        assert!(output.end("completed").is_empty());
    }
}

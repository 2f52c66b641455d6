//! Messages of a chat completion.

use crate::body::{LineFault, UNSUPPORTED_FIELD};
use menagerie::engine::{ChatMessage, TextError, ToolCall};
use menagerie::loaders::CallSupportError;
use serde_json::{Map, Value};
use std::collections::HashSet;

/// Fields of a message. `refusal` may only be null.
const FIELDS: [&str; 7] =
    ["role", "content", "reasoning_content", "reasoning", "tool_calls", "tool_call_id", "name"];

/// The messages of a chat completion. Contents are text.
///
/// # Errors
/// A message has an error, or a field that is not supported.
pub fn messages_of(messages: &Value) -> Result<Vec<ChatMessage>, LineFault> {
    let list = messages.as_array().filter(|list| !list.is_empty());
    let list = list.ok_or_else(|| LineFault::of("messages", "expected a list of messages"))?;
    let mut calls = HashSet::new();
    let message = |(index, message): (usize, &Value)| {
        let fields = message
            .as_object()
            .ok_or_else(|| LineFault::of(&format!("messages[{index}]"), "expected an object"))?;
        MessageFields { index, fields }.message(&mut calls)
    };
    list.iter().enumerate().map(message).collect()
}

/// A message that is read.
struct MessageFields<'m> {
    index: usize,
    fields: &'m Map<String, Value>,
}

impl MessageFields<'_> {
    fn fault(&self, part: &str, reason: impl std::fmt::Display) -> LineFault {
        LineFault::of(&format!("messages[{}].{part}", self.index), reason)
    }

    /// A field that is not null.
    fn get(&self, name: &str) -> Option<&Value> {
        self.fields.get(name).filter(|value| !value.is_null())
    }

    fn text(&self, name: &str) -> Result<Option<String>, LineFault> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(_) => Err(self.fault(name, "expected a string")),
        }
    }

    /// The message; `calls` are the ids of all calls before it.
    fn message(&self, calls: &mut HashSet<String>) -> Result<ChatMessage, LineFault> {
        if let Some((name, _)) =
            self.fields.iter().find(|(name, value)| !FIELDS.contains(&name.as_str()) && !value.is_null())
        {
            return Err(self.fault(name, UNSUPPORTED_FIELD));
        }
        let role = self.text("role")?.ok_or_else(|| self.fault("role", "expected a string"))?;
        let tool_calls = match self.get("tool_calls") {
            None => Vec::new(),
            Some(_) if role != "assistant" => {
                return Err(self.fault("tool_calls", "only a message of the assistant has calls"));
            }
            Some(list) => self.calls(list)?,
        };
        let content = self.content(!tool_calls.is_empty())?;
        calls.extend(tool_calls.iter().map(|call| call.id.clone()));
        let tool_call_id = self.text("tool_call_id")?;
        match (role == "tool", &tool_call_id) {
            (true, None) => {
                return Err(self.fault("tool_call_id", "a result needs the id of its call"));
            }
            (true, Some(id)) if !calls.contains(id) => {
                return Err(self.fault("tool_call_id", format!("no call before it has the id {id:?}")));
            }
            (false, Some(_)) => {
                return Err(self.fault("tool_call_id", "only a message of the role tool has it"));
            }
            _ => {}
        }
        let reasoning = match self.text("reasoning_content")? {
            Some(text) => Some(text),
            None => self.text("reasoning")?,
        };
        let name = self.text("name")?;
        Ok(ChatMessage { reasoning, tool_calls, tool_call_id, name, ..ChatMessage::new(role, content) })
    }

    /// The content, which may be missing beside calls.
    fn content(&self, optional: bool) -> Result<String, LineFault> {
        match self.get("content") {
            Some(Value::String(text)) => Ok(text.clone()),
            Some(Value::Array(parts)) => {
                let part = |(at, part): (usize, &Value)| match (part["type"].as_str(), part["text"].as_str())
                {
                    (Some("text"), Some(text)) => Ok(text.to_owned()),
                    (Some("text"), None) => {
                        Err(self.fault(&format!("content[{at}].text"), "expected a string"))
                    }
                    (kind, _) => {
                        let kind = kind.unwrap_or("without a type");
                        let reason = format!("a part of type {kind:?} is not supported, only text");
                        Err(self.fault(&format!("content[{at}].type"), reason))
                    }
                };
                parts.iter().enumerate().map(part).collect()
            }
            None if optional => Ok(String::new()),
            _ => Err(self.fault("content", "expected a string or a list of text parts")),
        }
    }

    fn calls(&self, list: &Value) -> Result<Vec<ToolCall>, LineFault> {
        let Some(list) = list.as_array() else {
            return Err(self.fault("tool_calls", "expected a list"));
        };
        let call = |(at, call): (usize, &Value)| {
            let fault = |part: &str, reason: &dyn std::fmt::Display| {
                let dot = if part.is_empty() { "" } else { "." };
                self.fault(&format!("tool_calls[{at}]{dot}{part}"), reason)
            };
            let call = ToolCall::of_json(call).map_err(|error| fault(error.field(), &error))?;
            if call.id.is_empty() {
                return Err(fault("id", &"expected a string that is not empty"));
            }
            Ok(call)
        };
        list.iter().enumerate().map(call).collect()
    }
}

/// The error of a prompt: of the tools, if their calls could not be read.
pub fn prompt_fault(error: &TextError) -> LineFault {
    let of_tools = error.0.downcast_ref::<CallSupportError>().is_some();
    LineFault::of(if of_tools { "tools" } else { "messages" }, error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn messages_have_calls_results_and_parts() {
        let call =
            json!({ "id": "c1", "type": "function", "function": { "name": "f", "arguments": "{\"a\": 1}" } });
        let good = json!([
            { "role": "system", "content": "s" },
            { "role": "user", "content": [{ "type": "text", "text": "a" }, { "type": "text", "text": "b" }], "name": "n" },
            { "role": "assistant", "content": null, "reasoning": "r", "tool_calls": [call], "refusal": null },
            { "role": "tool", "tool_call_id": "c1", "content": "fine" },
        ]);
        let messages = messages_of(&good).unwrap();
        assert_eq!((messages[1].content.as_str(), messages[1].name.as_deref()), ("ab", Some("n")));
        assert_eq!((messages[2].content.as_str(), messages[2].reasoning.as_deref()), ("", Some("r")));
        let expected = ToolCall { id: "c1".into(), name: "f".into(), arguments: "{\"a\": 1}".into() };
        assert_eq!(messages[2].tool_calls, [expected]);
        assert_eq!(messages[3].tool_call_id.as_deref(), Some("c1"));
    }

    #[test]
    fn what_is_wrong_in_a_message_is_named() {
        let call =
            |arguments: Value| json!([{ "id": "c", "function": { "name": "f", "arguments": arguments } }]);
        for (message, field) in [
            (json!({ "role": "user" }), "messages[0].content"),
            (json!({ "role": "user", "content": [{ "type": "image_url" }] }), "messages[0].content[0].type"),
            (json!({ "role": "user", "content": "a", "tool_calls": [] }), "messages[0].tool_calls"),
            (json!({ "role": "user", "content": "a", "audio": {} }), "messages[0].audio"),
            (json!({ "content": "a" }), "messages[0].role"),
            (
                json!({ "role": "assistant", "tool_calls": call(json!("{")) }),
                "messages[0].tool_calls[0].function.arguments",
            ),
            (
                json!({ "role": "assistant", "tool_calls": call(json!("[1]")) }),
                "messages[0].tool_calls[0].function.arguments",
            ),
            (
                json!({ "role": "assistant", "tool_calls": [{ "id": "c" }] }),
                "messages[0].tool_calls[0].function.name",
            ),
            (json!({ "role": "assistant", "tool_calls": [] }), "messages[0].content"),
            (json!({ "role": "tool", "content": "x" }), "messages[0].tool_call_id"),
            (
                json!({ "role": "tool", "content": "x", "tool_call_id": "unknown" }),
                "messages[0].tool_call_id",
            ),
        ] {
            assert_eq!(messages_of(&json!([message])).unwrap_err().field.as_deref(), Some(field));
        }
    }
}

//! The input of a response: items as messages of a conversation.

use crate::body::{LineFault, UNSUPPORTED_FIELD};
use menagerie::engine::{ChatMessage, ToolCall};
use serde_json::{Map, Value, json};
use std::collections::HashMap;

/// Fields of every item that change no prompt. Clients send items of earlier answers as they came.
const NOTES: [&str; 6] = ["type", "id", "status", "phase", "parsed", "parsed_arguments"];
/// What separates messages of the system that are put together: templates know one of them.
const BETWEEN: &str = "\n\n";

/// The messages of `instructions` and `input`.
///
/// # Errors
/// An item has an error, or is not supported.
pub(crate) fn input_messages(
    instructions: Option<Value>,
    input: Option<Value>,
) -> Result<Vec<ChatMessage>, LineFault> {
    let mut reader = InputReader::default();
    match instructions {
        None => {}
        Some(Value::String(text)) => reader.say("system", text),
        Some(_) => return Err(LineFault::of("instructions", "expected a string")),
    }
    match input {
        None => {}
        Some(Value::String(text)) => reader.say("user", text),
        Some(Value::Array(items)) => {
            for (index, item) in items.iter().enumerate() {
                let item = item.as_object();
                let item =
                    item.ok_or_else(|| LineFault::of(&format!("input[{index}]"), "expected an object"))?;
                reader.item(&InputItem { index, fields: item })?;
            }
        }
        Some(_) => return Err(LineFault::of("input", "expected a string or a list of items")),
    }
    reader.close();
    if reader.messages.is_empty() {
        // Clients ask in this way whether a model answers.
        reader.say("user", String::new());
    }
    Ok(reader.messages)
}

/// The messages so far.
#[derive(Default)]
struct InputReader {
    messages: Vec<ChatMessage>,
    /// The turn of the assistant that is being read: reasoning, a text, and calls are items of their own.
    turn: Option<ChatMessage>,
    /// The calls so far, by id.
    calls: HashMap<String, ToolCall>,
}

impl InputReader {
    fn item(&mut self, item: &InputItem) -> Result<(), LineFault> {
        match item.kind()? {
            "message" => self.message(item),
            "reasoning" => {
                item.only(&["summary", "content", "encrypted_content"])?;
                let text = match item.parts("content", &["reasoning_text"])? {
                    text if text.is_empty() => item.parts("summary", &["summary_text"])?,
                    text => text,
                };
                let is_told = |turn: &ChatMessage| !turn.content.is_empty() || !turn.tool_calls.is_empty();
                let turn = self.turn_unless(is_told);
                // Only encrypted reasoning has no text, and it is of another server.
                if !text.is_empty() {
                    turn.reasoning.get_or_insert_default().push_str(&text);
                }
                Ok(())
            }
            "function_call" => {
                item.only(&["call_id", "name", "arguments"])?;
                let arguments = item.text("arguments")?;
                self.call(item, arguments)
            }
            "custom_tool_call" => {
                item.only(&["call_id", "name", "input"])?;
                let arguments = json!({ "input": item.text("input")? }).to_string();
                self.call(item, arguments)
            }
            "function_call_output" | "custom_tool_call_output" => {
                item.only(&["call_id", "output"])?;
                let id = item.text("call_id")?;
                let output = item.content("output", &["input_text", "output_text"])?;
                let Some(call) = self.calls.get(&id) else {
                    return Err(item.fault("call_id", format!("no call before it has the id {id:?}")));
                };
                let result = ChatMessage::tool_result(call, output);
                self.close();
                self.messages.push(result);
                Ok(())
            }
            other => {
                let reason = format!("items of type {other:?} are not supported; leave it out");
                Err(item.fault("type", reason))
            }
        }
    }

    fn message(&mut self, item: &InputItem) -> Result<(), LineFault> {
        item.only(&["role", "content"])?;
        let content = item.content("content", &["input_text", "output_text", "text"])?;
        match item.text("role")?.as_str() {
            "assistant" => {
                let is_told = |turn: &ChatMessage| !turn.content.is_empty() || !turn.tool_calls.is_empty();
                self.turn_unless(is_told).content = content;
            }
            "user" => self.say("user", content),
            "system" | "developer" => self.say("system", content),
            other => {
                let reason =
                    format!("{other:?} is not supported, only user, assistant, system and developer");
                return Err(item.fault("role", reason));
            }
        }
        Ok(())
    }

    fn call(&mut self, item: &InputItem, arguments: String) -> Result<(), LineFault> {
        let id = item.text("call_id")?;
        let call = ToolCall { id: id.clone(), name: item.text("name")?, arguments };
        if let Err(error) = call.object() {
            return Err(item.fault("arguments", format!("expected the text of a JSON object: {error}")));
        }
        self.turn_unless(|_| false).tool_calls.push(call.clone());
        self.calls.insert(id, call);
        Ok(())
    }

    /// The turn of the assistant; a new one if there is none, or if this is true of it.
    fn turn_unless(&mut self, is_over: impl Fn(&ChatMessage) -> bool) -> &mut ChatMessage {
        if self.turn.as_ref().is_some_and(is_over) {
            self.close();
        }
        self.turn.get_or_insert_with(|| ChatMessage::assistant(""))
    }

    /// Adds a message of another role than the assistant. System messages before the conversation become one message.
    fn say(&mut self, role: &str, content: String) {
        self.close();
        match self.messages.as_mut_slice() {
            [first] if role == "system" && first.role == "system" => {
                first.content.push_str(BETWEEN);
                first.content.push_str(&content);
            }
            _ => self.messages.push(ChatMessage::new(role, content)),
        }
    }

    fn close(&mut self) {
        self.messages.extend(self.turn.take());
    }
}

/// An item that is read.
struct InputItem<'i> {
    index: usize,
    fields: &'i Map<String, Value>,
}

impl<'i> InputItem<'i> {
    fn fault(&self, part: &str, reason: impl std::fmt::Display) -> LineFault {
        LineFault::of(&format!("input[{}].{part}", self.index), reason)
    }

    /// A field that is not null.
    fn get(&self, name: &str) -> Option<&'i Value> {
        self.fields.get(name).filter(|value| !value.is_null())
    }

    /// Its type; one without a type is a message.
    fn kind(&self) -> Result<&'i str, LineFault> {
        match self.get("type") {
            None => Ok("message"),
            Some(Value::String(kind)) => Ok(kind),
            Some(_) => Err(self.fault("type", "expected a string")),
        }
    }

    fn text(&self, name: &str) -> Result<String, LineFault> {
        let text = self.get(name).and_then(Value::as_str);
        text.map(str::to_owned).ok_or_else(|| self.fault(name, "expected a string"))
    }

    /// Refuses fields other than these.
    fn only(&self, known: &[&str]) -> Result<(), LineFault> {
        let is_other = |(name, value): &(&String, &Value)| {
            !value.is_null() && !known.contains(&name.as_str()) && !NOTES.contains(&name.as_str())
        };
        match self.fields.iter().find(is_other) {
            Some((name, _)) => Err(self.fault(name, UNSUPPORTED_FIELD)),
            None => Ok(()),
        }
    }

    /// A text, or the text of parts of these types.
    fn content(&self, name: &str, kinds: &[&str]) -> Result<String, LineFault> {
        match self.get(name) {
            Some(Value::String(text)) => Ok(text.clone()),
            Some(Value::Array(_)) => self.parts(name, kinds),
            _ => Err(self.fault(name, "expected a string or a list of text parts")),
        }
    }

    /// The text of parts of these types; nothing if the field is missing.
    fn parts(&self, name: &str, kinds: &[&str]) -> Result<String, LineFault> {
        let part = |(at, part): (usize, &Value)| {
            let kind = part["type"].as_str().unwrap_or_default();
            let text = match kind {
                "refusal" if name == "content" => part["refusal"].as_str(),
                kind if kinds.contains(&kind) => part["text"].as_str(),
                _ => {
                    let reason =
                        format!("a part of type {kind:?} is not supported, only {}", kinds.join(", "));
                    return Err(self.fault(&format!("{name}[{at}].type"), reason));
                }
            };
            let text = text.map(str::to_owned);
            text.ok_or_else(|| self.fault(&format!("{name}[{at}].text"), "expected a string"))
        };
        match self.get(name) {
            None => Ok(String::new()),
            Some(Value::Array(parts)) => parts.iter().enumerate().map(part).collect(),
            Some(_) => Err(self.fault(name, "expected a list of parts")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(input: Value) -> Result<Vec<ChatMessage>, LineFault> {
        input_messages(None, Some(input))
    }

    #[test]
    fn items_are_messages() {
        let items = json!([
            { "role": "developer", "content": "short" },
            { "type": "message", "role": "user", "content": [{ "type": "input_text", "text": "a" }] },
            { "type": "reasoning", "id": "rs", "summary": [], "content": [{ "type": "reasoning_text", "text": "hm" }] },
            { "type": "message", "id": "msg", "role": "assistant", "status": "completed",
              "content": [{ "type": "output_text", "text": "so", "annotations": [], "logprobs": [] }] },
            { "type": "function_call", "id": "fc", "call_id": "c1", "name": "f", "arguments": "{\"a\":1}" },
            { "type": "custom_tool_call", "call_id": "c2", "name": "g", "input": "x" },
            { "type": "function_call_output", "call_id": "c1", "output": "1" },
            { "type": "custom_tool_call_output", "call_id": "c2", "output": [{ "type": "input_text", "text": "2" }] },
            { "type": "reasoning", "summary": [{ "type": "summary_text", "text": "sum" }] },
            { "role": "user", "content": "b" },
        ]);
        let messages = input_messages(Some(json!("be")), Some(items)).unwrap();
        let roles: Vec<(&str, &str)> =
            messages.iter().map(|message| (message.role.as_str(), message.content.as_str())).collect();
        let expected = [
            ("system", "be\n\nshort"),
            ("user", "a"),
            ("assistant", "so"),
            ("tool", "1"),
            ("tool", "2"),
            ("assistant", ""),
            ("user", "b"),
        ];
        assert_eq!(roles, expected);
        assert_eq!(messages[2].reasoning.as_deref(), Some("hm"));
        let names: Vec<&str> = messages[2].tool_calls.iter().map(|call| call.name.as_str()).collect();
        assert_eq!(
            (names, messages[2].tool_calls[1].arguments.as_str()),
            (vec!["f", "g"], "{\"input\":\"x\"}")
        );
        assert_eq!(
            (messages[4].tool_call_id.as_deref(), messages[4].name.as_deref()),
            (Some("c2"), Some("g"))
        );
        assert_eq!(messages[5].reasoning.as_deref(), Some("sum"));
        // An empty input asks whether the model answers.
        assert_eq!(read(json!([])).unwrap(), [ChatMessage::user("")]);
        assert_eq!(read(json!("hi")).unwrap(), [ChatMessage::user("hi")]);
    }

    #[test]
    fn what_is_wrong_in_an_item_is_named() {
        for (item, field) in [
            (json!(1), "input[0]"),
            (json!({ "role": "user" }), "input[0].content"),
            (json!({ "role": "tool", "content": "a" }), "input[0].role"),
            (json!({ "role": "user", "content": [{ "type": "input_image" }] }), "input[0].content[0].type"),
            (json!({ "role": "user", "content": "a", "name": "n" }), "input[0].name"),
            (json!({ "type": "item_reference", "id": "x" }), "input[0].type"),
            (json!({ "type": "function_call_output", "call_id": "c", "output": "" }), "input[0].call_id"),
            (
                json!({ "type": "function_call", "call_id": "c", "name": "f", "arguments": "[" }),
                "input[0].arguments",
            ),
            (json!({ "type": "function_call", "call_id": "c", "arguments": "{}" }), "input[0].name"),
        ] {
            assert_eq!(read(json!([item])).unwrap_err().field.as_deref(), Some(field), "{item}");
        }
        assert_eq!(read(json!(1)).unwrap_err().field.as_deref(), Some("input"));
        assert_eq!(input_messages(Some(json!([])), None).unwrap_err().field.as_deref(), Some("instructions"));
    }
}

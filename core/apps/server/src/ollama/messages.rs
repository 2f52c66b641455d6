//! The messages of a conversation.

use crate::object_fields::ObjectFields;
use menagerie::engine::{ChatMessage, ToolCall};
use menagerie_openai::LineFault;
use serde_json::Value;

/// Reads a conversation. Calls have no ids in older versions of the interface: a result belongs to the first call without
/// one, of its tool if it names it.
#[derive(Default)]
pub(super) struct MessageReader {
    messages: Vec<ChatMessage>,
    /// Calls without a result.
    open: Vec<ToolCall>,
    /// The number of calls so far.
    calls: usize,
}

impl MessageReader {
    /// The conversation.
    pub(super) fn conversation(mut self, list: Vec<Value>) -> Result<Vec<ChatMessage>, LineFault> {
        let count = list.len();
        for (index, message) in list.into_iter().enumerate() {
            self.message(ObjectFields::read(format!("messages[{index}]"), message)?)?;
        }
        if self.messages.last().is_some_and(|last| last.role == "assistant") {
            let reason =
                "the last message is one of the assistant; continuing it is not supported, remove it";
            return Err(LineFault::of(&format!("messages[{}]", count.saturating_sub(1)), reason));
        }
        Ok(self.messages)
    }

    fn message(&mut self, mut fields: ObjectFields) -> Result<(), LineFault> {
        let role = fields.needed_text("role")?;
        if !["system", "user", "assistant", "tool"].contains(&role.as_str()) {
            let reason =
                format!("{role:?} is not supported, only \"system\", \"user\", \"assistant\" and \"tool\"");
            return Err(fields.fault("role", reason));
        }
        let content = fields.text("content")?.unwrap_or_default();
        no_images(&mut fields)?;
        let mut message = ChatMessage::new(role.as_str(), content);
        message.reasoning = fields.text("thinking")?.filter(|text| !text.is_empty());
        let calls = fields.list("tool_calls")?.unwrap_or_default();
        if !calls.is_empty() && role != "assistant" {
            return Err(fields.fault("tool_calls", "only a message of the assistant has calls"));
        }
        for (index, call) in calls.into_iter().enumerate() {
            let call = self.call(ObjectFields::read(fields.place(&format!("tool_calls[{index}]")), call)?)?;
            self.open.push(call.clone());
            message.tool_calls.push(call);
        }
        let (name, id) = (fields.text("tool_name")?, fields.text("tool_call_id")?);
        if role == "tool" {
            let fits = |call: &ToolCall| {
                id.as_ref().is_none_or(|id| *id == call.id)
                    && name.as_ref().is_none_or(|name| *name == call.name)
            };
            let Some(at) = self.open.iter().position(fits) else {
                return Err(fields.fault("role", "there is no call before it whose result it could be"));
            };
            let call = self.open.remove(at);
            (message.tool_call_id, message.name) = (Some(call.id), Some(call.name));
        } else if name.is_some() || id.is_some() {
            return Err(fields.fault("tool_name", "only a message of the role tool is the result of a call"));
        }
        fields.finish()?;
        self.messages.push(message);
        Ok(())
    }

    fn call(&mut self, mut fields: ObjectFields) -> Result<ToolCall, LineFault> {
        let id = fields.text("id")?.filter(|id| !id.is_empty());
        fields.take("type");
        let Some(mut function) = fields.object("function")? else {
            return Err(fields.fault("function", "expected an object"));
        };
        fields.finish()?;
        let name = function.needed_text("name")?;
        let arguments = match function.take("arguments") {
            None => "{}".to_owned(),
            Some(arguments @ Value::Object(_)) => arguments.to_string(),
            Some(_) => return Err(function.fault("arguments", "expected an object")),
        };
        // The place of the call in the list, and the description of the tool.
        function.take("index");
        function.take("description");
        function.finish()?;
        self.calls += 1;
        let id = id.unwrap_or_else(|| format!("call_{}", self.calls));
        Ok(ToolCall { id, name, arguments })
    }
}

/// Refuses images.
pub(super) fn no_images(fields: &mut ObjectFields) -> Result<(), LineFault> {
    match fields.list("images")? {
        Some(images) if !images.is_empty() => {
            Err(fields.fault("images", "images are not supported, only text"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(messages: Value) -> Result<Vec<ChatMessage>, LineFault> {
        let Value::Array(list) = messages else { panic!("{messages}") };
        MessageReader::default().conversation(list)
    }

    #[test]
    fn results_belong_to_their_calls() {
        let call = |name: &str| json!({ "function": { "name": name, "arguments": { "a": 1 } } });
        let messages = read(json!([
            { "role": "user", "content": "q" },
            { "role": "assistant", "thinking": "hm", "tool_calls": [call("f"), call("g"), call("f")] },
            { "role": "tool", "tool_name": "g", "content": "two" },
            { "role": "tool", "tool_name": "f", "content": "one" },
            { "role": "tool", "content": "three" },
        ]))
        .unwrap();
        let ids: Vec<Option<&str>> =
            messages[2..].iter().map(|message| message.tool_call_id.as_deref()).collect();
        assert_eq!(ids, [Some("call_2"), Some("call_1"), Some("call_3")]);
        assert_eq!(messages[1].tool_calls[0].arguments, "{\"a\":1}");
        assert_eq!(messages[1].reasoning.as_deref(), Some("hm"));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (message, field) in [
            (json!({ "role": "user", "content": "a", "images": ["aaaa"] }), "messages[0].images"),
            (json!({ "role": "user", "content": ["a"] }), "messages[0].content"),
            (json!({ "role": "other", "content": "a" }), "messages[0].role"),
            (json!({ "role": "tool", "content": "a" }), "messages[0].role"),
            (json!({ "role": "assistant", "content": "a" }), "messages[0]"),
            (json!({ "role": "user", "content": "a", "name": "b" }), "messages[0].name"),
            (
                json!({ "role": "assistant", "tool_calls": [{ "function": { "name": "f", "arguments": "{}" } }] }),
                "messages[0].tool_calls[0].function.arguments",
            ),
        ] {
            assert_eq!(read(json!([message])).unwrap_err().field.as_deref(), Some(field), "{message}");
        }
    }
}

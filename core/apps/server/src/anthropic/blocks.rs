//! The messages of a conversation: from content blocks to messages of the engine.

use crate::object_fields::{IgnoredFields, ObjectFields};
use menagerie::engine::{ChatMessage, ToolCall};
use menagerie_openai::LineFault;
use serde_json::Value;
use std::collections::HashSet;

/// With this Claude Code begins the system text. It differs in every request, so that no state of an earlier prompt could
/// be used.
const BILLING_HEADER: &str = "x-anthropic-billing-header:";
/// Fields of blocks that change no answer.
const WITHOUT_EFFECT: [&str; 2] = ["cache_control", "citations"];
/// Between two texts of one turn.
const PARAGRAPH: &str = "\n\n";

/// Reads a conversation.
pub(super) struct BlockReader<'i> {
    ignored: &'i mut IgnoredFields,
    messages: Vec<ChatMessage>,
    /// The ids of all calls so far.
    calls: HashSet<String>,
}

/// The blocks of a turn.
#[derive(Default)]
struct TurnBlocks {
    texts: Vec<String>,
    reasoning: String,
    calls: Vec<ToolCall>,
    results: Vec<ChatMessage>,
}

impl<'i> BlockReader<'i> {
    pub(super) fn new(ignored: &'i mut IgnoredFields) -> Self {
        Self { ignored, messages: Vec::new(), calls: HashSet::new() }
    }

    /// The conversation of a system text and turns.
    pub(super) fn conversation(
        mut self,
        system: Option<Value>,
        turns: Vec<Value>,
    ) -> Result<Vec<ChatMessage>, LineFault> {
        if let Some(text) =
            system.map(|system| self.system(system)).transpose()?.filter(|text| !text.is_empty())
        {
            self.messages.push(ChatMessage::system(text));
        }
        let count = turns.len();
        for (index, turn) in turns.into_iter().enumerate() {
            self.turn(format!("messages[{index}]"), turn)?;
        }
        match self.messages.last() {
            Some(last) if last.role == "assistant" => {
                let reason =
                    "the last message is one of the assistant; continuing it is not supported, remove it";
                Err(LineFault::of(&format!("messages[{}]", count.saturating_sub(1)), reason))
            }
            Some(_) if count > 0 => Ok(self.messages),
            _ => Err(LineFault::of("messages", "expected a list of messages, not empty")),
        }
    }

    /// The system text. The line about billing is left out.
    fn system(&mut self, system: Value) -> Result<String, LineFault> {
        let Value::Array(blocks) = system else {
            let Value::String(text) = system else {
                return Err(LineFault::of("system", "expected a string or a list of text blocks"));
            };
            if !text.starts_with(BILLING_HEADER) {
                return Ok(text);
            }
            self.ignored.add(BILLING_HEADER.trim_end_matches(':'));
            return Ok(text
                .split_once('\n')
                .map_or("", |(_, rest)| rest)
                .trim_start_matches('\n')
                .to_owned());
        };
        let mut texts = Vec::new();
        for (index, block) in blocks.into_iter().enumerate() {
            let text = self.text_block(format!("system[{index}]"), block)?;
            if index == 0 && text.starts_with(BILLING_HEADER) {
                self.ignored.add(BILLING_HEADER.trim_end_matches(':'));
            } else if !text.is_empty() {
                texts.push(text);
            }
        }
        Ok(texts.join(PARAGRAPH))
    }

    /// A block that can only be text.
    fn text_block(&mut self, place: String, block: Value) -> Result<String, LineFault> {
        let mut fields = ObjectFields::read(place, block)?;
        match fields.needed_text("type")?.as_str() {
            "text" => self.rest_of_text(fields),
            other => Err(unsupported(&fields, other)),
        }
    }

    fn rest_of_text(&mut self, mut fields: ObjectFields) -> Result<String, LineFault> {
        let text = fields.needed_text("text")?;
        self.finish(fields)?;
        Ok(text)
    }

    fn finish(&mut self, mut fields: ObjectFields) -> Result<(), LineFault> {
        fields.ignore(&WITHOUT_EFFECT, self.ignored);
        fields.finish()
    }

    fn turn(&mut self, place: String, turn: Value) -> Result<(), LineFault> {
        let mut fields = ObjectFields::read(place, turn)?;
        let role = fields.needed_text("role")?;
        if role != "user" && role != "assistant" {
            return Err(
                fields.fault("role", format!("{role:?} is not supported, only \"user\" and \"assistant\""))
            );
        }
        let mut turn = TurnBlocks::default();
        let place = fields.place("content");
        match fields.take("content") {
            Some(Value::String(text)) => turn.texts.push(text),
            Some(Value::Array(blocks)) => {
                for (index, block) in blocks.into_iter().enumerate() {
                    self.block(format!("{place}[{index}]"), block, role == "user", &mut turn)?;
                }
            }
            _ => return Err(fields.fault("content", "expected a string or a list of blocks")),
        }
        turn.texts.retain(|text| !text.is_empty());
        let is_empty = turn.texts.is_empty() && turn.calls.is_empty() && turn.results.is_empty();
        if is_empty && turn.reasoning.is_empty() {
            return Err(fields.fault("content", "there is nothing in it"));
        }
        fields.finish()?;
        if role == "user" {
            self.add_user(turn)
        } else {
            self.add_assistant(turn)
        }
        Ok(())
    }

    fn block(
        &mut self,
        place: String,
        block: Value,
        is_user: bool,
        turn: &mut TurnBlocks,
    ) -> Result<(), LineFault> {
        let mut fields = ObjectFields::read(place, block)?;
        let kind = fields.needed_text("type")?;
        match (kind.as_str(), is_user) {
            ("text", _) => turn.texts.push(self.rest_of_text(fields)?),
            ("tool_result", true) => turn.results.push(self.result(fields)?),
            ("tool_use", false) => turn.calls.push(self.call(fields)?),
            ("thinking", false) => {
                turn.reasoning.push_str(&fields.needed_text("thinking")?);
                // It proves nothing here: any text may be reasoning.
                fields.text("signature")?;
                self.finish(fields)?;
            }
            ("redacted_thinking", false) => self.ignored.add("redacted_thinking"),
            ("tool_result" | "tool_use" | "thinking" | "redacted_thinking", _) => {
                let role = if is_user { "user" } else { "assistant" };
                return Err(
                    fields.fault("type", format!("a message of the {role} has no block of type {kind:?}"))
                );
            }
            (other, _) => return Err(unsupported(&fields, other)),
        }
        Ok(())
    }

    fn call(&mut self, mut fields: ObjectFields) -> Result<ToolCall, LineFault> {
        let (id, name) = (fields.needed_text("id")?, fields.needed_text("name")?);
        if id.is_empty() {
            return Err(fields.fault("id", "expected a string that is not empty"));
        }
        let arguments = match fields.take("input") {
            Some(input @ Value::Object(_)) => input.to_string(),
            _ => return Err(fields.fault("input", "expected an object")),
        };
        fields.ignore(&["caller"], self.ignored);
        self.finish(fields)?;
        self.calls.insert(id.clone());
        Ok(ToolCall { id, name, arguments })
    }

    fn result(&mut self, mut fields: ObjectFields) -> Result<ChatMessage, LineFault> {
        let id = fields.needed_text("tool_use_id")?;
        if !self.calls.contains(&id) {
            return Err(fields.fault("tool_use_id", format!("no call before it has the id {id:?}")));
        }
        let place = fields.place("content");
        let mut text = match fields.take("content") {
            None => String::new(),
            Some(Value::String(text)) => text,
            Some(Value::Array(blocks)) => {
                let mut texts = Vec::new();
                for (index, block) in blocks.into_iter().enumerate() {
                    texts.push(self.text_block(format!("{place}[{index}]"), block)?);
                }
                texts.join(PARAGRAPH)
            }
            Some(_) => return Err(fields.fault("content", "expected a string or a list of text blocks")),
        };
        // Templates know no failed calls, so the text says it.
        if fields.flag("is_error")? == Some(true) {
            text.insert_str(0, "Error: ");
        }
        self.finish(fields)?;
        Ok(ChatMessage { tool_call_id: Some(id), ..ChatMessage::new("tool", text) })
    }

    /// Results come before the text. Turns of the user that follow each other are one.
    fn add_user(&mut self, TurnBlocks { texts, results, .. }: TurnBlocks) {
        self.messages.extend(results);
        if texts.is_empty() {
            return;
        }
        let text = texts.join(PARAGRAPH);
        match self.messages.last_mut().filter(|last| last.role == "user") {
            Some(last) => last.content.extend([PARAGRAPH, text.as_str()]),
            None => self.messages.push(ChatMessage::user(text)),
        }
    }

    /// The texts of an answer are parts of one text. Turns of the assistant that follow each other are one.
    fn add_assistant(&mut self, TurnBlocks { texts, reasoning, calls, .. }: TurnBlocks) {
        let reasoning = Some(reasoning).filter(|reasoning| !reasoning.is_empty());
        match self.messages.last_mut().filter(|last| last.role == "assistant") {
            Some(last) => {
                last.content.push_str(&texts.concat());
                last.tool_calls.extend(calls);
                if let Some(reasoning) = reasoning {
                    last.reasoning.get_or_insert_default().push_str(&reasoning);
                }
            }
            None => {
                let message = ChatMessage::assistant(texts.concat());
                self.messages.push(ChatMessage { reasoning, tool_calls: calls, ..message });
            }
        }
    }
}

fn unsupported(fields: &ObjectFields, kind: &str) -> LineFault {
    fields.fault("type", format!("a block of type {kind:?} is not supported, only text; remove it"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(system: Value, turns: Value) -> Result<(Vec<ChatMessage>, Vec<String>), LineFault> {
        let mut ignored = IgnoredFields::default();
        let Value::Array(turns) = turns else { panic!("{turns}") };
        let system = Some(system).filter(|system| !system.is_null());
        let messages = BlockReader::new(&mut ignored).conversation(system, turns)?;
        Ok((messages, ignored.names().to_vec()))
    }

    #[test]
    fn blocks_become_messages() {
        let turns = json!([
            { "role": "user", "content": "first" },
            { "role": "user", "content": [{ "type": "text", "text": "second", "cache_control": { "type": "ephemeral" } }] },
            { "role": "assistant", "content": [
                { "type": "thinking", "thinking": "hm", "signature": "s" }, { "type": "redacted_thinking", "data": "x" },
                { "type": "text", "text": "so" }, { "type": "tool_use", "id": "c1", "name": "f", "input": { "a": 1 } },
            ] },
            { "role": "user", "content": [
                { "type": "text", "text": "after" },
                { "type": "tool_result", "tool_use_id": "c1", "is_error": true, "content": [{ "type": "text", "text": "no" }] },
            ] },
        ]);
        let (messages, ignored) =
            read(json!([{ "type": "text", "text": "be" }, { "type": "text", "text": "good" }]), turns)
                .unwrap();
        let call = ToolCall { id: "c1".into(), name: "f".into(), arguments: "{\"a\":1}".into() };
        let answer = ChatMessage {
            reasoning: Some("hm".into()),
            tool_calls: vec![call],
            ..ChatMessage::assistant("so")
        };
        let result = ChatMessage { tool_call_id: Some("c1".into()), ..ChatMessage::new("tool", "Error: no") };
        let expected = [
            ChatMessage::system("be\n\ngood"),
            ChatMessage::user("first\n\nsecond"),
            answer,
            result,
            ChatMessage::user("after"),
        ];
        assert_eq!(messages, expected);
        assert_eq!(ignored, ["cache_control", "redacted_thinking"]);
    }

    #[test]
    fn the_line_about_billing_is_left_out() {
        let turns = json!([{ "role": "user", "content": "a" }]);
        let header = "x-anthropic-billing-header: cc_version=1; cch=a1b2c;";
        for (system, rest) in [
            (json!(format!("{header}\n\nYou help.")), Some("You help.")),
            (json!(header), None),
            (
                json!([{ "type": "text", "text": header }, { "type": "text", "text": "You help." }]),
                Some("You help."),
            ),
        ] {
            let (messages, ignored) = read(system, turns.clone()).unwrap();
            let first = messages.iter().find(|message| message.role == "system");
            assert_eq!(first.map(|message| message.content.as_str()), rest);
            assert_eq!(ignored, ["x-anthropic-billing-header"]);
        }
        let later = json!([{ "type": "text", "text": "You help." }, { "type": "text", "text": header }]);
        assert!(read(later, turns).unwrap().0[0].content.ends_with(header));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let user = |block: Value| json!([{ "role": "user", "content": [block] }]);
        for (turns, field) in [
            (json!([]), "messages"),
            (json!([{ "role": "system", "content": "a" }]), "messages[0].role"),
            (json!([{ "role": "user", "content": "" }]), "messages[0].content"),
            (json!([{ "role": "user", "content": "a", "name": "b" }]), "messages[0].name"),
            (
                json!([{ "role": "user", "content": "a" }, { "role": "assistant", "content": "b" }]),
                "messages[1]",
            ),
            (user(json!({ "type": "image", "source": {} })), "messages[0].content[0].type"),
            (user(json!({ "type": "text", "text": 1 })), "messages[0].content[0].text"),
            (user(json!({ "type": "text", "text": "a", "more": 1 })), "messages[0].content[0].more"),
            (
                user(json!({ "type": "tool_use", "id": "c", "name": "f", "input": {} })),
                "messages[0].content[0].type",
            ),
            (
                user(json!({ "type": "tool_result", "tool_use_id": "c" })),
                "messages[0].content[0].tool_use_id",
            ),
        ] {
            assert_eq!(
                read(Value::Null, turns.clone()).unwrap_err().field.as_deref(),
                Some(field),
                "{turns}"
            );
        }
    }
}

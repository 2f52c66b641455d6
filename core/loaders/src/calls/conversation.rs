//! The conversation with which formats of calls are verified: arguments with quotes, tags, lines and objects.

use menagerie_answers::CallFormat;
use serde_json::{Map, Value, json};

/// The text of an answer without calls.
pub(super) const ANSWER: &str = "\u{203B}probe of an answer\u{203B}";

/// The descriptions of the tools.
pub(super) const DESCRIPTIONS: [&str; 2] = ["probe of a forecast", "probe of a file"];

const RESULTS: [&str; 2] = ["probe-result-one", "probe-result-two"];

/// The tools of the conversation.
pub(super) fn tools() -> Vec<Value> {
    let tool = |name: &str, description: &str, properties: Value| {
        let required: Vec<&String> = properties.as_object().into_iter().flat_map(Map::keys).collect();
        let parameters = json!({ "type": "object", "properties": properties, "required": required });
        let function = json!({ "name": name, "description": description, "parameters": parameters });
        json!({ "type": "function", "function": function })
    };
    let text = |description: &str| json!({ "type": "string", "description": description });
    let mode = json!({
        "type": "object", "description": "a mode", "properties": { "x": { "type": "boolean", "description": "a flag" } },
    });
    vec![
        tool(
            "get_weather",
            DESCRIPTIONS[0],
            json!({ "city": text("a city"), "days": { "type": "integer", "description": "a number" } }),
        ),
        tool(
            "write_file",
            DESCRIPTIONS[1],
            json!({ "path": text("a path"), "content": text("a text"), "mode": mode }),
        ),
    ]
}

/// A question, calls and their results.
pub(super) struct ProbeConversation {
    calls: Vec<Value>,
    expected: Vec<(String, Map<String, Value>)>,
}

impl ProbeConversation {
    /// A conversation with this number of calls, in messages for this format.
    pub(super) fn new(format: &CallFormat, count: usize, as_text: bool) -> Self {
        let all = [
            ("get_weather", json!({ "city": "São \"Paulo\" <b>", "days": 3 })),
            (
                "write_file",
                json!({ "path": "/tmp/a b", "content": "line 1\n  {\"x\": [1]}\nend", "mode": { "x": true } }),
            ),
        ];
        let mut conversation = Self { calls: Vec::new(), expected: Vec::new() };
        for (index, (name, arguments)) in all.into_iter().take(count).enumerate() {
            let written = if as_text { Value::String(arguments.to_string()) } else { arguments.clone() };
            let id = format.make_id(name, index, 0);
            let function = json!({ "name": name, "arguments": written });
            conversation.calls.push(json!({ "id": id, "type": "function", "function": function }));
            if let Value::Object(arguments) = arguments {
                conversation.expected.push((name.to_owned(), arguments));
            }
        }
        conversation
    }

    /// The calls.
    pub(super) fn expected(&self) -> Vec<(String, Map<String, Value>)> {
        self.expected.clone()
    }

    /// The results.
    pub(super) fn results(&self) -> &'static [&'static str] {
        &RESULTS[..self.calls.len().min(RESULTS.len())]
    }

    /// The messages before the answer.
    pub(super) fn question(&self) -> Vec<Value> {
        vec![json!({ "role": "user", "content": "probe" })]
    }

    /// The messages with a text as the answer.
    pub(super) fn with_text(&self) -> Vec<Value> {
        let mut messages = self.question();
        messages.push(json!({ "role": "assistant", "content": ANSWER }));
        messages
    }

    /// The messages with calls as the answer.
    pub(super) fn with_calls(&self) -> Vec<Value> {
        let mut messages = self.question();
        messages.push(json!({ "role": "assistant", "content": "", "tool_calls": self.calls }));
        messages
    }

    /// The messages with calls and their results.
    pub(super) fn with_results(&self) -> Vec<Value> {
        let mut messages = self.with_calls();
        messages.extend(self.calls.iter().zip(RESULTS).map(|(call, result)| {
            json!({
                "role": "tool", "content": result, "tool_call_id": call["id"], "name": call["function"]["name"],
            })
        }));
        messages
    }
}

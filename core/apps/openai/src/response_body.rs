//! [`ResponseBody`]: the body of a response (`/v1/responses`) as a conversation.

use crate::body::{LineFault, RequestBody, UNSUPPORTED_FIELD, only_fields};
use crate::request::{PromptRequest, RequestReader};
use crate::response_input::input_messages;
use crate::response_tools::ResponseTools;
use menagerie::engine::ChatMessage;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// What needs answers that are stored.
const STORED: [(&str, &str); 3] = [
    ("previous_response_id", "answers are not stored; send the whole conversation in input"),
    ("conversation", "conversations are not stored; send the whole conversation in input"),
    ("prompt", "prompts are not stored; send its text in instructions or input"),
];
/// Names of a chat completion that have another name here.
const OF_CHAT: [&str; 8] = [
    "messages",
    "n",
    "max_tokens",
    "max_completion_tokens",
    "response_format",
    "logprobs",
    "reasoning_effort",
    "stream_options",
];
/// What a field of a chat completion is called here.
const RENAMED: [(&str, &str); 5] = [
    ("max_completion_tokens", "max_output_tokens"),
    ("response_format.json_schema", "text.format"),
    ("response_format", "text.format"),
    ("reasoning_effort", "reasoning.effort"),
    ("messages", "input"),
];
/// `include` that concerns tools which are left out, or reasoning, which is never encrypted.
const LEFT_OUT: [&str; 7] = [
    "reasoning.encrypted_content",
    "web_search_call.action.sources",
    "web_search_call.results",
    "code_interpreter_call.outputs",
    "computer_call_output.output.image_url",
    "file_search_call.results",
    "message.input_image.image_url",
];

/// The body of a response.
#[derive(Debug, Default)]
pub struct ResponseBody {
    messages: Vec<ChatMessage>,
    /// The other fields, as a chat completion has them.
    chat: Map<String, Value>,
    /// Whether the oldest turns are left out of a prompt that is too long.
    leaves_out_oldest: bool,
    /// Names of tools whose input is a text.
    custom: BTreeSet<String>,
    /// Fields that the answer repeats.
    repeated: Map<String, Value>,
    /// What changes no answer.
    ignored: Vec<String>,
}

impl ResponseBody {
    /// Reads a body without `model` and the fields of streams.
    ///
    /// # Errors
    /// A field has an error, or is not supported.
    pub fn read(mut fields: Map<String, Value>) -> Result<Self, LineFault> {
        fields.retain(|_, value| !value.is_null());
        refuse(&mut fields)?;
        let mut body = Self::default();
        body.repeated.insert("metadata".to_owned(), fields.remove("metadata").unwrap_or_else(|| json!({})));
        let instructions = fields.remove("instructions");
        body.repeated.insert("instructions".to_owned(), instructions.clone().unwrap_or_default());
        body.messages = input_messages(instructions, fields.remove("input"))?;
        body.tools(&mut fields)?;
        body.length(&mut fields)?;
        body.reasoning(fields.remove("reasoning"))?;
        body.text(fields.remove("text"))?;
        body.included(&mut fields)?;
        if fields.remove("max_tool_calls").is_some() {
            body.ignored.push("max_tool_calls".to_owned());
        }
        // Sampling, and the fields of this server, have the same names in both.
        body.chat.extend(fields);
        Ok(body)
    }

    /// What changes no answer, for the client.
    pub fn ignored(&self) -> &[String] {
        &self.ignored
    }

    /// Names of tools whose input is a text.
    pub fn custom_tools(&self) -> &BTreeSet<String> {
        &self.custom
    }

    /// The fields that the answer repeats, with the values that were used.
    pub fn repeated(&self) -> &Map<String, Value> {
        &self.repeated
    }

    /// Its request. With `truncation: "auto"` the oldest turns (a message of the user and what follows it) are left out
    /// until the prompt and a reserve fit: the most tokens of the answer, and at most a quarter of the context.
    ///
    /// # Errors
    /// A field has an error or is not supported.
    pub fn request(&self, requests: &RequestReader) -> Result<PromptRequest, LineFault> {
        let context = requests.pipeline.context();
        let mut messages = self.messages.clone();
        loop {
            let made = requests.conversation(RequestBody::new(self.chat.clone()), &messages);
            let made = made.map_err(renamed)?;
            let quarter = context / 4;
            let most = made.answers.first().and_then(|answer| answer.max_tokens).unwrap_or(quarter);
            let is_too_long = made.tokens().len() + most.min(quarter) > context;
            if !self.leaves_out_oldest || !is_too_long || !leave_out_turn(&mut messages) {
                return Ok(made);
            }
        }
    }

    fn tools(&mut self, fields: &mut Map<String, Value>) -> Result<(), LineFault> {
        let tools = ResponseTools::read(fields.remove("tools"))?;
        let choice = fields.remove("tool_choice");
        let parallel = fields.remove("parallel_tool_calls");
        self.repeated.insert("tools".to_owned(), tools.sent.clone().into());
        self.repeated.insert("tool_choice".to_owned(), choice.clone().unwrap_or_else(|| json!("auto")));
        self.repeated
            .insert("parallel_tool_calls".to_owned(), parallel.clone().unwrap_or_else(|| json!(true)));
        if let Some(choice) = tools.choice(choice)? {
            self.chat.insert("tool_choice".to_owned(), choice);
        }
        if !tools.chat.is_empty() {
            self.chat.insert("tools".to_owned(), tools.chat.into());
            // Without tools there is nothing to call, one after the other or not.
            self.chat.extend(parallel.map(|parallel| ("parallel_tool_calls".to_owned(), parallel)));
        }
        self.custom = tools.custom;
        self.ignored.extend(tools.ignored);
        Ok(())
    }

    /// How long the answer and the prompt may be.
    fn length(&mut self, fields: &mut Map<String, Value>) -> Result<(), LineFault> {
        let most = fields.remove("max_output_tokens");
        self.repeated.insert("max_output_tokens".to_owned(), most.clone().unwrap_or_default());
        self.chat.extend(most.map(|most| ("max_completion_tokens".to_owned(), most)));
        let truncation = fields.remove("truncation").unwrap_or_else(|| json!("disabled"));
        self.leaves_out_oldest = match truncation.as_str() {
            Some("auto") => true,
            Some("disabled") => false,
            _ => return Err(LineFault::of("truncation", "expected \"auto\" or \"disabled\"")),
        };
        self.repeated.insert("truncation".to_owned(), truncation);
        Ok(())
    }

    fn reasoning(&mut self, reasoning: Option<Value>) -> Result<(), LineFault> {
        let mut repeated = json!({ "effort": null, "summary": null });
        match reasoning {
            None => {}
            Some(Value::Object(fields)) => {
                only_fields(
                    "reasoning",
                    &fields,
                    &["effort", "summary", "generate_summary", "context", "mode"],
                )?;
                for (name, value) in fields.into_iter().filter(|(_, value)| !value.is_null()) {
                    match name.as_str() {
                        "effort" => {
                            repeated["effort"] = value.clone();
                            self.chat.insert("reasoning_effort".to_owned(), value);
                        }
                        // The whole reasoning is shown, and never summarized.
                        _ => self.ignored.push(format!("reasoning.{name}")),
                    }
                }
            }
            Some(_) => return Err(LineFault::of("reasoning", "expected an object")),
        }
        self.repeated.insert("reasoning".to_owned(), repeated);
        Ok(())
    }

    /// The format of the answer: that of a chat completion, without the inner object.
    fn text(&mut self, text: Option<Value>) -> Result<(), LineFault> {
        let mut format = json!({ "type": "text" });
        match text {
            None => {}
            Some(Value::Object(mut text)) => {
                only_fields("text", &text, &["format", "verbosity"])?;
                format = text.remove("format").filter(|format| !format.is_null()).unwrap_or(format);
                if text.get("verbosity").is_some_and(|verbosity| !verbosity.is_null()) {
                    self.ignored.push("text.verbosity".to_owned());
                }
            }
            Some(_) => return Err(LineFault::of("text", "expected an object")),
        }
        self.repeated.insert("text".to_owned(), json!({ "format": format }));
        if format["type"] == "text" {
            return Ok(());
        }
        let format = match format {
            Value::Object(mut format) if format.get("type").is_some_and(|kind| kind == "json_schema") => {
                format.remove("type");
                format.retain(|_, value| !value.is_null());
                json!({ "type": "json_schema", "json_schema": format })
            }
            format => format,
        };
        self.chat.insert("response_format".to_owned(), format);
        Ok(())
    }

    /// `include` and `top_logprobs`: log probabilities of the text.
    fn included(&mut self, fields: &mut Map<String, Value>) -> Result<(), LineFault> {
        let mut with_logprobs = false;
        let wrong = || LineFault::of("include", "expected a list of strings");
        let included = fields.remove("include");
        for name in
            included.as_ref().map(|list| list.as_array().ok_or_else(wrong)).transpose()?.into_iter().flatten()
        {
            match name.as_str().ok_or_else(wrong)? {
                "message.output_text.logprobs" => with_logprobs = true,
                name if LEFT_OUT.contains(&name) => self.ignored.push(format!("include ({name})")),
                name => {
                    return Err(LineFault::of("include", format!("{name:?} is not supported; leave it out")));
                }
            }
        }
        let top = fields.remove("top_logprobs").unwrap_or_else(|| json!(0));
        if with_logprobs || top.as_u64() != Some(0) {
            self.chat.insert("logprobs".to_owned(), true.into());
            self.chat.insert("top_logprobs".to_owned(), top.clone());
        }
        self.repeated.insert("top_logprobs".to_owned(), top);
        Ok(())
    }
}

/// Refuses what needs stored answers, and names of other routes.
fn refuse(fields: &mut Map<String, Value>) -> Result<(), LineFault> {
    for (name, reason) in STORED {
        if fields.contains_key(name) {
            return Err(LineFault::of(name, reason));
        }
    }
    match fields.remove("background") {
        None | Some(Value::Bool(false)) => {}
        Some(_) => {
            let reason = "answers are not computed in the background; leave it out, or use /v1/batches";
            return Err(LineFault::of("background", reason));
        }
    }
    match OF_CHAT.iter().find(|name| fields.contains_key(**name)) {
        Some(name) => Err(LineFault::of(name, UNSUPPORTED_FIELD)),
        None => Ok(()),
    }
}

/// An error in a field of a chat completion, with the name that the field has here.
fn renamed(fault: LineFault) -> LineFault {
    let Some(field) = &fault.field else { return fault };
    for (chat, own) in RENAMED {
        if let Some(rest) = field.strip_prefix(chat) {
            let reason = fault.message.strip_prefix(&format!("{field}: ")).unwrap_or(&fault.message);
            return LineFault { status: fault.status, ..LineFault::of(&format!("{own}{rest}"), reason) };
        }
    }
    fault
}

/// Removes the oldest turn behind the messages of the system; `false` if only the last one is left.
fn leave_out_turn(messages: &mut Vec<ChatMessage>) -> bool {
    let first = messages.iter().take_while(|message| message.role == "system").count();
    let next = messages.iter().skip(first + 1).position(|message| message.role == "user");
    if let Some(next) = next {
        messages.drain(first..first + 1 + next);
    }
    next.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(fields: Value) -> Result<ResponseBody, LineFault> {
        ResponseBody::read(fields.as_object().unwrap().clone())
    }

    #[test]
    fn fields_have_the_names_of_chat() {
        let body = read(json!({
            "input": "a", "max_output_tokens": 5, "top_logprobs": 2, "temperature": 0, "parallel_tool_calls": false,
            "tools": [{ "type": "web_search" }], "tool_choice": "auto", "background": false, "previous_response_id": null,
            "reasoning": { "effort": "low", "summary": "auto" }, "include": ["reasoning.encrypted_content"],
            "text": { "format": { "type": "json_schema", "name": "n", "schema": {}, "strict": true }, "verbosity": "low" },
        }))
        .unwrap();
        let format =
            json!({ "type": "json_schema", "json_schema": { "name": "n", "schema": {}, "strict": true } });
        let chat = json!({
            "max_completion_tokens": 5, "reasoning_effort": "low", "response_format": format, "logprobs": true,
            "top_logprobs": 2, "temperature": 0,
        });
        assert_eq!(Value::from(body.chat.clone()), chat);
        let ignored =
            ["tools[0]", "reasoning.summary", "text.verbosity", "include (reasoning.encrypted_content)"];
        assert_eq!(body.ignored(), ignored);
        let repeated = body.repeated();
        assert_eq!((&repeated["parallel_tool_calls"], &repeated["tools"]), (&json!(false), &json!([])));
        assert_eq!((&repeated["truncation"], &repeated["metadata"]), (&json!("disabled"), &json!({})));
    }

    #[test]
    fn what_is_not_there_is_refused_by_name() {
        for (more, field) in [
            (json!({ "previous_response_id": "resp_1" }), "previous_response_id"),
            (json!({ "conversation": "c" }), "conversation"),
            (json!({ "prompt": { "id": "p" } }), "prompt"),
            (json!({ "background": true }), "background"),
            (json!({ "messages": [] }), "messages"),
            (json!({ "n": 2 }), "n"),
            (json!({ "truncation": "some" }), "truncation"),
            (json!({ "include": ["everything"] }), "include"),
            (json!({ "include": "x" }), "include"),
            (json!({ "reasoning": { "depth": 1 } }), "reasoning.depth"),
            (json!({ "text": { "color": 1 } }), "text.color"),
            (json!({ "tools": {} }), "tools"),
        ] {
            assert_eq!(read(more.clone()).unwrap_err().field.as_deref(), Some(field), "{more}");
        }
        let fault = renamed(LineFault::of("response_format.json_schema", "bad"));
        assert_eq!(
            (fault.field.as_deref(), fault.message.as_str()),
            (Some("text.format"), "text.format: bad")
        );
        assert_eq!(renamed(LineFault::of("top_p", "x")), LineFault::of("top_p", "x"));
    }

    #[test]
    fn the_oldest_turn_goes_first_and_the_last_one_stays() {
        let [user, answer] = [ChatMessage::user("u"), ChatMessage::assistant("a")];
        let mut messages =
            vec![ChatMessage::system("s"), user.clone(), answer.clone(), user.clone(), answer.clone()];
        assert!(leave_out_turn(&mut messages));
        assert_eq!(messages, [ChatMessage::system("s"), user, answer]);
        assert!(!leave_out_turn(&mut messages));
    }
}

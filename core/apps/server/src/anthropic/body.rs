//! [`MessagesBody`]: the body of a request for a message.

use super::blocks::BlockReader;
use crate::fault::ApiFault;
use crate::object_fields::{IgnoredFields, ObjectFields};
use crate::reading_model::ReadingText;
use crate::reasoning_switch::{ReasoningSwitch, ReasoningWish};
use menagerie::engine::ChatMessage;
use menagerie_openai::{LineFault, PromptRequest, RequestBody};
use serde_json::{Map, Value, json};

/// Fields that change no answer.
const WITHOUT_EFFECT: [&str; 9] = [
    "metadata",
    "service_tier",
    "cache_control",
    "inference_geo",
    "betas",
    "speed",
    "user_profile_id",
    "workspace_id",
    "diagnostics",
];
/// Fields of a tool that change no answer.
const WITHOUT_EFFECT_IN_TOOLS: [&str; 2] = ["cache_control", "eager_input_streaming"];
/// The names that the reader of OpenAI's fields has for fields of this interface.
const OWN_NAMES: [(&str, &str); 7] = [
    ("thinking_budget_tokens", "thinking.budget_tokens"),
    ("stop", "stop_sequences"),
    ("parallel_tool_calls", "tool_choice.disable_parallel_tool_use"),
    ("response_format.json_schema.schema", "output_config.format.schema"),
    ("response_format.json_schema", "output_config.format.schema"),
    ("response_format", "output_config.format"),
    ("chat_template_kwargs", "thinking"),
];

/// What a body is read for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MessagesPurpose {
    /// An answer, which needs a limit.
    Answer,
    /// The number of tokens of the prompt.
    Count,
}

/// A body that was read.
pub(crate) struct MessagesBody {
    messages: Vec<ChatMessage>,
    /// The options of the answer, as fields of a chat completion.
    options: Map<String, Value>,
    thinking: Option<ReasoningWish>,
    effort: Option<&'static str>,
    pub(crate) is_stream: bool,
    pub(crate) ignored: IgnoredFields,
}

impl MessagesBody {
    /// Reads every field but `model`.
    pub(crate) fn read(fields: Map<String, Value>, purpose: MessagesPurpose) -> Result<Self, LineFault> {
        let (mut body, mut ignored) = (ObjectFields::of_body(fields), IgnoredFields::default());
        body.ignore(&WITHOUT_EFFECT, &mut ignored);
        let mut options = Map::new();
        body.pass(&["temperature", "top_k", "top_p"], &mut options);
        match body.take("max_tokens") {
            Some(limit) if limit == 0 => {
                return Err(body.fault("max_tokens", "an answer has at least one token"));
            }
            Some(limit) => drop(options.insert("max_tokens".to_owned(), limit)),
            None if purpose == MessagesPurpose::Answer => {
                return Err(body.fault("max_tokens", "expected the most tokens of the answer"));
            }
            None => {}
        }
        if let Some(stops) = body.list("stop_sequences")? {
            options.insert("stop".to_owned(), stops.into());
        }
        tools(&mut body, &mut options, &mut ignored)?;
        let effort = output_config(&mut body, &mut options)?;
        let thinking = thinking(&mut body, &mut options, &mut ignored)?;
        let is_stream = body.flag("stream")?.unwrap_or(false);
        let (system, turns) = (body.take("system"), body.list("messages")?.unwrap_or_default());
        body.finish()?;
        let messages = BlockReader::new(&mut ignored).conversation(system, turns)?;
        Ok(Self { messages, options, thinking, effort, is_stream, ignored })
    }

    /// The prompt and the request for its answer.
    pub(crate) fn request(mut self, text: &ReadingText) -> Result<(PromptRequest, IgnoredFields), ApiFault> {
        let format = text.chat_format()?;
        let mut arguments = Map::new();
        if self.thinking.is_some() || self.effort.is_some() {
            let switch = ReasoningSwitch::of(&**format, &text.service.render);
            let wrong = |reason: &'static str| LineFault::of("thinking.type", reason);
            if let Some(wish) = self.thinking {
                switch.set(wish, &mut arguments).map_err(wrong)?;
            }
            let effort = self.effort.map(ReasoningWish::Effort);
            if effort.is_some_and(|effort| switch.set(effort, &mut arguments).is_err()) {
                self.ignored.add("output_config.effort");
            }
        }
        if !arguments.is_empty() {
            self.options.insert("chat_template_kwargs".to_owned(), arguments.into());
        }
        let request = text.requests().conversation(RequestBody::new(self.options), &self.messages);
        Ok((request.map_err(in_own_terms)?, self.ignored))
    }
}

/// Tools and the choice between them, as OpenAI's fields.
fn tools(
    body: &mut ObjectFields,
    options: &mut Map<String, Value>,
    ignored: &mut IgnoredFields,
) -> Result<(), LineFault> {
    if let Some(list) = body.list("tools")? {
        let tool = |(index, tool): (usize, Value)| {
            function(ObjectFields::read(format!("tools[{index}]"), tool)?, ignored)
        };
        let functions = list.into_iter().enumerate().map(tool).collect::<Result<Vec<Value>, _>>()?;
        options.insert("tools".to_owned(), functions.into());
    }
    let Some(mut choice) = body.object("tool_choice")? else { return Ok(()) };
    let value = match choice.needed_text("type")?.as_str() {
        "auto" => json!("auto"),
        "any" => json!("required"),
        "none" => json!("none"),
        "tool" => json!({ "type": "function", "function": { "name": choice.needed_text("name")? } }),
        other => {
            let reason = format!("{other:?} is not supported, only \"auto\", \"any\", \"tool\" and \"none\"");
            return Err(choice.fault("type", reason));
        }
    };
    options.insert("tool_choice".to_owned(), value);
    if choice.flag("disable_parallel_tool_use")? == Some(true) {
        options.insert("parallel_tool_calls".to_owned(), false.into());
    }
    choice.finish()
}

/// A tool as a function in OpenAI's format.
fn function(mut tool: ObjectFields, ignored: &mut IgnoredFields) -> Result<Value, LineFault> {
    if let Some(kind) = tool.text("type")?.filter(|kind| kind != "custom") {
        let reason = format!("{kind:?} would run on the server, which runs no tools; remove it");
        return Err(tool.fault("type", reason));
    }
    let mut function = json!({ "name": tool.needed_text("name")? });
    if let Some(text) = tool.text("description")? {
        function["description"] = text.into();
    }
    match tool.take("input_schema") {
        Some(schema @ Value::Object(_)) => function["parameters"] = schema,
        _ => return Err(tool.fault("input_schema", "expected an object")),
    }
    if let Some(strict) = tool.flag("strict")? {
        function["strict"] = strict.into();
    }
    tool.ignore(&WITHOUT_EFFECT_IN_TOOLS, ignored);
    tool.finish()?;
    Ok(json!({ "type": "function", "function": function }))
}

/// The format of the answer; returns how much the model is to reason.
fn output_config(
    body: &mut ObjectFields,
    options: &mut Map<String, Value>,
) -> Result<Option<&'static str>, LineFault> {
    let Some(mut config) = body.object("output_config")? else { return Ok(None) };
    let effort = match config.text("effort")?.as_deref() {
        None => None,
        Some("low") => Some("low"),
        Some("medium") => Some("medium"),
        // Templates know three efforts.
        Some("high" | "xhigh" | "max") => Some("high"),
        Some(other) => {
            return Err(config.fault(
                "effort",
                format!("{other:?} is not supported, only low, medium, high, xhigh and max"),
            ));
        }
    };
    if let Some(mut format) = config.object("format")? {
        let kind = format.needed_text("type")?;
        if kind != "json_schema" {
            return Err(format.fault("type", format!("{kind:?} is not supported, only \"json_schema\"")));
        }
        let Some(schema) = format.take("schema") else {
            return Err(format.fault("schema", "expected an object"));
        };
        format.finish()?;
        let format = json!({ "type": "json_schema", "json_schema": { "name": "answer", "schema": schema } });
        options.insert("response_format".to_owned(), format);
    }
    config.finish()?;
    Ok(effort)
}

/// Whether the model is to reason; how much is added to the options.
fn thinking(
    body: &mut ObjectFields,
    options: &mut Map<String, Value>,
    ignored: &mut IgnoredFields,
) -> Result<Option<ReasoningWish>, LineFault> {
    let Some(mut fields) = body.object("thinking")? else { return Ok(None) };
    let thinking = match fields.needed_text("type")?.as_str() {
        "enabled" => ReasoningWish::On,
        "disabled" => ReasoningWish::Off,
        "adaptive" => ReasoningWish::Adaptive,
        other => {
            let reason =
                format!("{other:?} is not supported, only \"enabled\", \"disabled\" and \"adaptive\"");
            return Err(fields.fault("type", reason));
        }
    };
    match fields.take("budget_tokens") {
        None => {}
        Some(limit) if thinking == ReasoningWish::On => {
            drop(options.insert("thinking_budget_tokens".to_owned(), limit))
        }
        Some(_) => return Err(fields.fault("budget_tokens", "it goes only with the type \"enabled\"")),
    }
    match fields.text("display")?.as_deref() {
        None => {}
        // The reasoning is shown as it is, not in other words.
        Some("summarized") => ignored.add("thinking.display"),
        Some(other) => {
            return Err(fields.fault("display", format!("{other:?} is not supported, only \"summarized\"")));
        }
    }
    fields.finish()?;
    Ok(Some(thinking))
}

/// An error with the name that a field has in this interface.
fn in_own_terms(fault: LineFault) -> LineFault {
    let own = OWN_NAMES.iter().find(|(name, _)| fault.field.as_deref() == Some(*name));
    match own {
        None => fault,
        Some((name, own)) => {
            let message = match fault.message.strip_prefix(*name) {
                Some(rest) => format!("{own}{rest}"),
                None => fault.message,
            };
            LineFault { message, field: Some((*own).to_owned()), ..fault }
        }
    }
}

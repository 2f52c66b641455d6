//! The fields of a chat completion about its chat template and tools.

use crate::body::{LineFault, RequestBody, only_fields};
use crate::call_choice::CallChoice;
use menagerie::engine::{CallLimits, RenderOptions, ToolSet};
use serde_json::{Map, Value};

const CHOICE: &str = "tool_choice";
const CONTINUE: &str = "continue_final_message";
const PARALLEL: &str = "parallel_tool_calls";

/// Adds the fields about the chat template (`tools`, `tool_choice`, `parallel_tool_calls`, `chat_template_kwargs`,
/// `add_generation_prompt`, `continue_final_message`) to the options of a prompt, and returns which tools the answer may or must call; `None` without tools.
///
/// # Errors
/// The value of a field is invalid or not supported.
pub fn template_fields(
    body: &mut RequestBody,
    options: &mut RenderOptions,
) -> Result<Option<CallChoice>, LineFault> {
    let calls = tools_of(body, options)?;
    match body.take("chat_template_kwargs") {
        Some(Value::Object(arguments)) => options.arguments.extend(arguments),
        Some(_) => return Err(LineFault::of("chat_template_kwargs", "expected an object")),
        None => {}
    }
    let begins = body.flag("add_generation_prompt")?;
    let continues = body.flag(CONTINUE)?.unwrap_or(false);
    if continues && begins == Some(true) {
        let reason =
            "a new answer cannot begin where the last message goes on; leave out add_generation_prompt";
        return Err(LineFault::of(CONTINUE, reason));
    }
    options.generation_prompt = begins.unwrap_or(options.generation_prompt);
    options.continue_final_message = continues;
    Ok(calls)
}

/// Adds the tools to the options of a prompt, and returns which of them the answer may or must call; `None` without
/// tools.
fn tools_of(body: &mut RequestBody, options: &mut RenderOptions) -> Result<Option<CallChoice>, LineFault> {
    match body.take("tools") {
        Some(Value::Array(tools)) => {
            check_tools(&tools)?;
            options.tools = Some(tools).filter(|tools| !tools.is_empty());
        }
        Some(_) => return Err(LineFault::of("tools", "expected a list")),
        None => {}
    }
    let parallel = body.flag(PARALLEL)?;
    let choice = body.take(CHOICE);
    if choice.as_ref().is_some_and(|choice| choice == "none") {
        options.tools = None;
        return Ok(None);
    }
    let Some(tools) = &options.tools else {
        return match (choice, parallel) {
            (Some(choice), _) if choice != "auto" => Err(LineFault::of(CHOICE, "there are no tools")),
            (_, Some(false)) => Err(LineFault::of(PARALLEL, "there are no tools")),
            _ => Ok(None),
        };
    };
    let auto = CallChoice::auto(tools);
    let (required, only) = choice.map_or(Ok((false, None)), |choice| chosen(&choice))?;
    let set = ToolSet::new(tools).map_err(|fault| LineFault::of("tools", fault))?;
    if let Some(name) = only.iter().flatten().find(|name| !set.has(name)) {
        return Err(LineFault::of(CHOICE, format!("no tool has the name {name:?}")));
    }
    let limits = CallLimits::new(only, parallel == Some(false));
    Ok(Some(CallChoice { required, limits, ..auto }))
}

fn check_tools(tools: &[Value]) -> Result<(), LineFault> {
    let other = tools.iter().position(|tool| tool.get("type").is_some_and(|kind| kind != "function"));
    if let Some(index) = other {
        let reason = "only tools of the type function are supported";
        return Err(LineFault::of(&format!("tools[{index}].type"), reason));
    }
    ToolSet::new(tools).map(drop).map_err(|fault| LineFault::of("tools", fault))
}

/// Whether a choice requires a call, and the only tools that may be called.
fn chosen(choice: &Value) -> Result<(bool, Option<Vec<String>>), LineFault> {
    match (choice.as_str(), choice["type"].as_str()) {
        (Some("auto"), _) => Ok((false, None)),
        (Some("required"), _) => Ok((true, None)),
        (None, Some("function")) => {
            only_fields(CHOICE, object(CHOICE, choice)?, &["type", "function"])?;
            Ok((true, Some(vec![named(CHOICE, choice)?])))
        }
        (None, Some("allowed_tools")) => {
            only_fields(CHOICE, object(CHOICE, choice)?, &["type", "allowed_tools"])?;
            let place = format!("{CHOICE}.allowed_tools");
            let allowed = &choice["allowed_tools"];
            only_fields(&place, object(&place, allowed)?, &["mode", "tools"])?;
            let required = match allowed["mode"].as_str() {
                Some("auto") => false,
                Some("required") => true,
                _ => {
                    return Err(LineFault::of(&format!("{place}.mode"), "expected \"auto\" or \"required\""));
                }
            };
            let place = format!("{place}.tools");
            let tools = allowed["tools"].as_array().filter(|tools| !tools.is_empty());
            let tools = tools.ok_or_else(|| LineFault::of(&place, "expected a list of tools, not empty"))?;
            let names: Result<Vec<String>, LineFault> =
                tools.iter().map(|tool| named(&place, tool)).collect();
            Ok((required, Some(names?)))
        }
        _ => {
            let reason = format!(
                "{choice} is not supported, only \"auto\", \"none\", \"required\", and the types function and \
                 allowed_tools"
            );
            Err(LineFault::of(CHOICE, reason))
        }
    }
}

/// The name of `{"type": "function", "function": {"name"}}`.
fn named(place: &str, tool: &Value) -> Result<String, LineFault> {
    let name = tool["function"]["name"].as_str().filter(|_| tool["type"] == "function");
    name.map(str::to_owned).ok_or_else(|| {
        LineFault::of(
            place,
            format!("{tool} is not {{\"type\": \"function\", \"function\": {{\"name\": ..}}}}"),
        )
    })
}

fn object<'v>(place: &str, value: &'v Value) -> Result<&'v Map<String, Value>, LineFault> {
    value.as_object().ok_or_else(|| LineFault::of(place, "expected an object"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(fields: Value) -> Result<(Option<CallChoice>, bool), LineFault> {
        let mut body = RequestBody::new(fields.as_object().unwrap().clone());
        let mut options = RenderOptions::default();
        tools_of(&mut body, &mut options).map(|choice| (choice, options.tools.is_some()))
    }

    #[test]
    fn choices_are_read() {
        let tools = json!([
            { "type": "function", "function": { "name": "f" } },
            { "type": "function", "function": { "name": "g", "strict": true } },
        ]);
        let function = |name: &str| json!({ "type": "function", "function": { "name": name } });
        let allowed = |mode: &str| json!({ "type": "allowed_tools", "allowed_tools": { "mode": mode, "tools": [function("g")] } });
        let limits =
            |only: Option<&str>, single| CallLimits::new(only.map(|name| vec![name.to_owned()]), single);
        for (fields, required, expected) in [
            (json!({ "tools": tools }), false, limits(None, false)),
            (
                json!({ "tools": tools, "tool_choice": "auto", "parallel_tool_calls": true }),
                false,
                limits(None, false),
            ),
            (json!({ "tools": tools, "parallel_tool_calls": false }), false, limits(None, true)),
            (json!({ "tools": tools, "tool_choice": "required" }), true, limits(None, false)),
            (json!({ "tools": tools, "tool_choice": function("f") }), true, limits(Some("f"), false)),
            (json!({ "tools": tools, "tool_choice": allowed("auto") }), false, limits(Some("g"), false)),
            (json!({ "tools": tools, "tool_choice": allowed("required") }), true, limits(Some("g"), false)),
        ] {
            let choice = CallChoice { required, limits: expected, strict: true };
            assert_eq!(read(fields.clone()), Ok((Some(choice), true)), "{fields}");
        }
        for fields in [json!({ "tools": tools, "tool_choice": "none" }), json!({ "tools": [] }), json!({})] {
            assert_eq!(read(fields.clone()), Ok((None, false)), "{fields}");
        }
        for (fields, field) in [
            (json!({ "tools": tools, "tool_choice": "any" }), "tool_choice"),
            (json!({ "tools": tools, "tool_choice": function("h") }), "tool_choice"),
            (json!({ "tools": tools, "tool_choice": { "type": "function" } }), "tool_choice"),
            (json!({ "tools": tools, "tool_choice": allowed("never") }), "tool_choice.allowed_tools.mode"),
            (json!({ "tool_choice": "required" }), "tool_choice"),
            (json!({ "parallel_tool_calls": false }), "parallel_tool_calls"),
            (json!({ "tools": tools, "parallel_tool_calls": 1 }), "parallel_tool_calls"),
            (json!({ "tools": [{ "type": "web_search" }] }), "tools[0].type"),
            (json!({ "tools": [{ "type": "function" }] }), "tools"),
            (json!({ "tools": {} }), "tools"),
        ] {
            assert_eq!(read(fields.clone()).unwrap_err().field.as_deref(), Some(field), "{fields}");
        }
    }
}

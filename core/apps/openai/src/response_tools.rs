//! The tools of a response, as those of a chat completion.

use crate::body::LineFault;
use menagerie::grammar::GrammarSource;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

const CHOICE: &str = "tool_choice";

/// The tools of a response.
#[derive(Debug, Default)]
pub(crate) struct ResponseTools {
    /// As a chat completion has them.
    pub(crate) chat: Vec<Value>,
    /// As they were sent, without those that are left out.
    pub(crate) sent: Vec<Value>,
    /// Names of tools whose input is a text.
    pub(crate) custom: BTreeSet<String>,
    /// What is left out.
    pub(crate) ignored: Vec<String>,
}

impl ResponseTools {
    /// Reads `tools`. Tools that only OpenAI's servers have are left out: clients send them by themselves.
    ///
    /// # Errors
    /// The list, or a tool that is not left out, has an error.
    pub(crate) fn read(tools: Option<Value>) -> Result<Self, LineFault> {
        let mut read = Self::default();
        let tools = match tools {
            None => return Ok(read),
            Some(Value::Array(tools)) => tools,
            Some(_) => return Err(LineFault::of("tools", "expected a list")),
        };
        for (index, tool) in tools.into_iter().enumerate() {
            let Value::Object(fields) = tool else {
                return Err(LineFault::of(&format!("tools[{index}]"), "expected an object"));
            };
            let function = match fields.get("type").and_then(Value::as_str) {
                Some("function") => read.function(index, &fields),
                Some("custom") => read.custom_tool(index, &fields)?,
                _ => {
                    read.ignored.push(format!("tools[{index}]"));
                    continue;
                }
            };
            read.chat.push(json!({ "type": "function", "function": function }));
            read.sent.push(fields.into());
        }
        Ok(read)
    }

    fn function(&mut self, index: usize, fields: &Map<String, Value>) -> Map<String, Value> {
        let mut function = Map::new();
        for (name, value) in fields.iter().filter(|(_, value)| !value.is_null()) {
            match name.as_str() {
                "type" => {}
                "name" | "description" | "parameters" | "strict" => {
                    function.insert(name.clone(), value.clone());
                }
                _ => self.ignored.push(format!("tools[{index}].{}", shown(name))),
            }
        }
        function
    }

    /// A tool whose input is a text, as a function with one argument. A regular expression for the text is part of its
    /// description, and the text must fit it.
    fn custom_tool(
        &mut self,
        index: usize,
        fields: &Map<String, Value>,
    ) -> Result<Map<String, Value>, LineFault> {
        let mut description =
            fields.get("description").and_then(Value::as_str).unwrap_or_default().to_owned();
        let mut text = json!({ "type": "string" });
        for (name, value) in fields.iter().filter(|(_, value)| !value.is_null()) {
            match name.as_str() {
                "type" | "name" | "description" => {}
                "format" => {
                    if let Some(pattern) = text_pattern(index, value)? {
                        description.push_str(&format!("\n\nThe input has this form (regex):\n{pattern}"));
                        text["pattern"] = format!("^(?:{pattern})$").into();
                    }
                }
                _ => self.ignored.push(format!("tools[{index}].{}", shown(name))),
            }
        }
        let Some(name) = fields.get("name").and_then(Value::as_str) else {
            return Err(LineFault::of(&format!("tools[{index}].name"), "expected a string"));
        };
        self.custom.insert(name.to_owned());
        let is_strict = text.get("pattern").is_some();
        let input = json!({ "type": "object", "properties": { "input": text },
            "required": ["input"], "additionalProperties": false });
        let mut function = json!({ "name": name, "description": description, "parameters": input });
        if is_strict {
            function["strict"] = true.into();
        }
        Ok(function.as_object().cloned().unwrap_or_default())
    }

    /// `tool_choice` as a chat completion has it; `None` if there are no tools to choose from.
    ///
    /// # Errors
    /// It names a tool that is left out.
    pub(crate) fn choice(&self, choice: Option<Value>) -> Result<Option<Value>, LineFault> {
        let Some(choice) = choice else { return Ok(None) };
        match (choice.as_str(), choice["type"].as_str()) {
            (Some("auto" | "none"), _) if self.chat.is_empty() => Ok(None),
            (Some(_), _) => Ok(Some(choice)),
            (None, Some("function" | "custom")) => Ok(Some(named(CHOICE, &choice)?)),
            (None, Some("allowed_tools")) => {
                let tools = choice["tools"].as_array().cloned().unwrap_or_default();
                // Those of other types are left out of the tools, too.
                let is_known = |tool: &&Value| tool["type"] == "function" || tool["type"] == "custom";
                let place = format!("{CHOICE}.tools");
                let tools: Result<Vec<Value>, LineFault> =
                    tools.iter().filter(is_known).map(|tool| named(&place, tool)).collect();
                let allowed = json!({ "mode": choice["mode"], "tools": tools? });
                Ok(Some(json!({ "type": "allowed_tools", "allowed_tools": allowed })))
            }
            _ => {
                let reason = format!(
                    "{choice} is not supported, only \"auto\", \"none\", \"required\", and the types function, custom and \
                     allowed_tools"
                );
                Err(LineFault::of(CHOICE, reason))
            }
        }
    }
}

/// The regular expression that the text of a tool must match; `None` for any text.
///
/// # Errors
/// The text has a form that cannot be enforced.
fn text_pattern(index: usize, format: &Value) -> Result<Option<&str>, LineFault> {
    let place = |field: &str| format!("tools[{index}].format.{field}");
    match (format["type"].as_str(), format["syntax"].as_str()) {
        (Some("text"), _) => Ok(None),
        (Some("grammar"), Some("regex")) => match format["definition"].as_str() {
            // It stands in a larger one below, so it has to be whole.
            Some(definition) => match GrammarSource::regex(definition) {
                Ok(_) => Ok(Some(definition)),
                Err(error) => Err(LineFault::of(&place("definition"), error)),
            },
            None => Err(LineFault::of(&place("definition"), "expected the text of a regular expression")),
        },
        (Some("grammar"), syntax) => {
            let reason = format!(
                "{} is not supported, only `regex`: leave out format, and describe the form of the text",
                syntax.map_or_else(|| format["syntax"].to_string(), |syntax| format!("`{}`", shown(syntax)))
            );
            Err(LineFault::of(&place("syntax"), reason))
        }
        (other, _) => {
            let found =
                other.map_or_else(|| format["type"].to_string(), |other| format!("`{}`", shown(other)));
            Err(LineFault::of(&place("type"), format!("{found} is not supported, only `text` and `grammar`")))
        }
    }
}

/// A tool by name, as a chat completion has it.
fn named(place: &str, tool: &Value) -> Result<Value, LineFault> {
    match tool["name"].as_str() {
        Some(name) => Ok(json!({ "type": "function", "function": { "name": name } })),
        None => Err(LineFault::of(&format!("{place}.name"), "expected a string")),
    }
}

/// A name from a request, for a header.
fn shown(name: &str) -> String {
    name.chars().filter(|letter| letter.is_ascii_alphanumeric() || *letter == '_').take(64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_tools_are_left_out_and_named() {
        let tools = ResponseTools::read(Some(json!([
            { "type": "web_search" },
            { "type": "function", "name": "f", "parameters": { "type": "object" }, "strict": null, "async": true },
            { "type": "custom", "name": "g", "description": "d", "format": { "type": "text" } },
        ])))
        .unwrap();
        assert_eq!(tools.ignored, ["tools[0]", "tools[1].async"]);
        let function = json!({ "name": "f", "parameters": { "type": "object" } });
        assert_eq!(tools.chat[0], json!({ "type": "function", "function": function }));
        let custom = &tools.chat[1]["function"];
        assert_eq!(custom["parameters"]["required"], json!(["input"]));
        assert_eq!((&custom["description"], custom.get("strict")), (&json!("d"), None));
        assert_eq!((tools.sent.len(), tools.custom.contains("g")), (2, true));
        let choice = |choice: Value| tools.choice(Some(choice));
        let by_name = |name: &str| json!({ "type": "function", "function": { "name": name } });
        assert_eq!(choice(json!({ "type": "custom", "name": "g" })), Ok(Some(by_name("g"))));
        let allowed = json!({ "type": "allowed_tools", "mode": "auto",
            "tools": [{ "type": "function", "name": "f" }, { "type": "web_search" }] });
        let nested = json!({ "mode": "auto", "tools": [by_name("f")] });
        assert_eq!(choice(allowed), Ok(Some(json!({ "type": "allowed_tools", "allowed_tools": nested }))));
        assert!(choice(json!({ "type": "web_search" })).is_err());
        assert_eq!(ResponseTools::default().choice(Some(json!("auto"))), Ok(None));
        assert!(ResponseTools::read(Some(json!([{ "type": "custom" }]))).is_err());
    }

    #[test]
    fn the_form_of_a_text_is_enforced_or_refused() {
        let read = |format: Value| {
            let tool = json!({ "type": "custom", "name": "g", "format": format });
            ResponseTools::read(Some(json!([tool])))
        };
        let regex = |definition: &str| {
            read(json!({ "type": "grammar", "syntax": "regex", "definition": definition }))
        };
        let tools = regex("[a-h][1-8]|O-O").unwrap();
        let function = &tools.chat[0]["function"];
        assert_eq!(function["parameters"]["properties"]["input"]["pattern"], "^(?:[a-h][1-8]|O-O)$");
        assert_eq!((&function["strict"], tools.ignored.len()), (&json!(true), 0));
        assert!(function["description"].as_str().unwrap().ends_with("[a-h][1-8]|O-O"));
        let refused = |tools: Result<ResponseTools, LineFault>| tools.unwrap_err().field.unwrap();
        let lark = json!({ "type": "grammar", "syntax": "lark", "definition": "start: /a/" });
        assert_eq!(refused(read(lark)), "tools[0].format.syntax");
        assert_eq!(refused(read(json!({ "type": "xml" }))), "tools[0].format.type");
        assert_eq!(
            refused(read(json!({ "type": "grammar", "syntax": "regex" }))),
            "tools[0].format.definition"
        );
        assert_eq!(refused(regex("a)|(b")), "tools[0].format.definition", "it would end the group around it");
    }
}

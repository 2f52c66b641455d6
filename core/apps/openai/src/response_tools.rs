//! The tools of a response, as those of a chat completion.

use crate::body::LineFault;
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

    /// A tool whose input is a text, as a function with one argument. A grammar of the text is part of its description:
    /// it is not enforced.
    fn custom_tool(
        &mut self,
        index: usize,
        fields: &Map<String, Value>,
    ) -> Result<Map<String, Value>, LineFault> {
        let mut description =
            fields.get("description").and_then(Value::as_str).unwrap_or_default().to_owned();
        for (name, value) in fields.iter().filter(|(_, value)| !value.is_null()) {
            match name.as_str() {
                "type" | "name" | "description" => {}
                "format" => {
                    if let Some(definition) = value["definition"].as_str() {
                        let syntax = value["syntax"].as_str().unwrap_or("grammar");
                        description
                            .push_str(&format!("\n\nThe input has this form ({syntax}):\n{definition}"));
                        self.ignored.push(format!("tools[{index}].format"));
                    }
                }
                _ => self.ignored.push(format!("tools[{index}].{}", shown(name))),
            }
        }
        let Some(name) = fields.get("name").and_then(Value::as_str) else {
            return Err(LineFault::of(&format!("tools[{index}].name"), "expected a string"));
        };
        self.custom.insert(name.to_owned());
        let input = json!({ "type": "object", "properties": { "input": { "type": "string" } },
            "required": ["input"], "additionalProperties": false });
        let function = json!({ "name": name, "description": description, "parameters": input });
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
            { "type": "custom", "name": "g", "description": "d", "format": { "type": "grammar", "syntax": "lark",
              "definition": "start: /a/" } },
        ])))
        .unwrap();
        assert_eq!(tools.ignored, ["tools[0]", "tools[1].async", "tools[2].format"]);
        let function = json!({ "name": "f", "parameters": { "type": "object" } });
        assert_eq!(tools.chat[0], json!({ "type": "function", "function": function }));
        let custom = &tools.chat[1]["function"];
        assert_eq!(custom["parameters"]["required"], json!(["input"]));
        assert!(custom["description"].as_str().unwrap().ends_with("start: /a/"));
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
}

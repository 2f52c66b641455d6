//! [`ToolSet`]: the tools that a model may call.

use serde_json::Value;
use std::collections::BTreeMap;

/// The most characters of the name of a tool.
const LONGEST_NAME: usize = 128;

/// How the value of a parameter is written where a format writes values without quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ValueKind {
    /// The text as it stands.
    Text,
    /// JSON.
    Json,
    /// JSON if it is valid JSON of another type than a string, otherwise the text as it stands.
    Either,
}

/// Why a list of tools cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ToolFault {
    /// A tool without a name.
    #[error(
        "tools[{index}]: no function.name; a tool is {{\"type\": \"function\", \"function\": {{\"name\", ..}}}}"
    )]
    NoName {
        /// Its index.
        index: usize,
    },
    /// A name that no format can write.
    #[error(
        "tools[{index}].function.name: {name:?} is not a name; use 1 to {LONGEST_NAME} letters, digits, `_`, `-` and `.`"
    )]
    Name {
        /// Its index.
        index: usize,
        /// The name.
        name: String,
    },
    /// Two tools with the same name.
    #[error("tools[{index}].function.name: a tool before it is also named `{name}`; rename one of them")]
    Twice {
        /// The index of the second.
        index: usize,
        /// The name.
        name: String,
    },
}

/// The tools that a model may call, by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolSet {
    /// JSON schemas of the parameters.
    tools: BTreeMap<String, Value>,
}

impl ToolSet {
    /// Reads tools as chat interfaces write them: `{"type": "function", "function": {"name", "parameters"}}`, or the
    /// inner object alone.
    ///
    /// # Errors
    /// A tool has no name, or one that cannot be written, or that of another tool.
    pub fn new(tools: &[Value]) -> Result<Self, ToolFault> {
        let mut set = Self::default();
        for (index, tool) in tools.iter().enumerate() {
            let function = tool.get("function").unwrap_or(tool);
            let name =
                function.get("name").and_then(Value::as_str).ok_or(ToolFault::NoName { index })?.to_owned();
            if name.is_empty() || name.chars().count() > LONGEST_NAME || !name.chars().all(is_name_character)
            {
                return Err(ToolFault::Name { index, name });
            }
            let parameters = function.get("parameters").cloned().unwrap_or_default();
            if set.tools.insert(name.clone(), parameters).is_some() {
                return Err(ToolFault::Twice { index, name });
            }
        }
        Ok(set)
    }

    /// The names of the tools, and the JSON schemas of their parameters; `null`: the tool has none.
    pub fn schemas(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.tools.iter().map(|(name, schema)| (name.as_str(), schema))
    }

    /// Whether a tool has this name.
    pub fn has(&self, name: &str) -> bool {
        self.tools.contains_key(name)
    }

    /// How the value of a parameter is written. Parameters that the schema does not declare are text.
    pub(crate) fn kind(&self, tool: &str, parameter: &str) -> ValueKind {
        let properties = self.tools.get(tool).and_then(|schema| schema.get("properties"));
        properties.and_then(|properties| properties.get(parameter)).map_or(ValueKind::Text, kind_of)
    }
}

/// Whether a character can be part of the name of a tool.
pub(crate) fn is_name_character(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '_' | '-' | '.')
}

/// The kind of a JSON schema.
fn kind_of(schema: &Value) -> ValueKind {
    let of_type = |name: &Value| if name == "string" { ValueKind::Text } else { ValueKind::Json };
    let known = match (&schema["type"], &schema["enum"], &schema["const"]) {
        (Value::Array(types), _, _) => common_kind(types.iter().map(of_type)),
        (name @ Value::String(_), _, _) => Some(of_type(name)),
        (_, Value::Array(values), _) => common_kind(values.iter().map(kind_of_value)),
        (_, _, value) if !value.is_null() => Some(kind_of_value(value)),
        _ => {
            let several = ["anyOf", "oneOf"].iter().find_map(|key| schema[*key].as_array());
            several.and_then(|schemas| common_kind(schemas.iter().map(kind_of)))
        }
    };
    known.unwrap_or(ValueKind::Either)
}

/// The kind that all have; [`ValueKind::Either`] if they differ, and `None` if there is none.
fn common_kind(mut kinds: impl Iterator<Item = ValueKind>) -> Option<ValueKind> {
    let first = kinds.next()?;
    Some(kinds.fold(first, |one, other| if one == other { one } else { ValueKind::Either }))
}

fn kind_of_value(value: &Value) -> ValueKind {
    if value.is_string() { ValueKind::Text } else { ValueKind::Json }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn names_are_checked() {
        let tool = |name: Value| json!({ "type": "function", "function": { "name": name } });
        assert!(ToolSet::new(&[tool(json!("a-b_c.d1")), json!({ "name": "bare" })]).unwrap().has("bare"));
        for (tools, part) in [
            (vec![json!({ "type": "function" })], "tools[0]: no function.name"),
            (vec![tool(json!("a")), tool(json!("b c"))], "tools[1].function.name: \"b c\" is not a name"),
            (vec![tool(json!(""))], "is not a name"),
            (vec![tool(json!("x".repeat(129)))], "is not a name"),
            (vec![tool(json!("a")), tool(json!("a"))], "tools[1].function.name: a tool before it"),
        ] {
            let error = ToolSet::new(&tools).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn values_are_written_as_their_schema_says() {
        let properties = json!({
            "text": { "type": "string" }, "count": { "type": "integer" }, "maybe": { "type": ["string", "null"] },
            "list": { "type": ["array", "null"] }, "unit": { "enum": ["c", "f"] }, "level": { "enum": [1, "x"] },
            "any": {}, "one": { "anyOf": [{ "type": "string" }, { "type": "number" }] }, "same": { "const": 1 },
        });
        let tool = json!({ "name": "f", "parameters": { "type": "object", "properties": properties } });
        let tools = ToolSet::new(&[tool]).unwrap();
        for (parameter, kind) in [
            ("text", ValueKind::Text),
            ("count", ValueKind::Json),
            ("maybe", ValueKind::Either),
            ("list", ValueKind::Json),
            ("unit", ValueKind::Text),
            ("level", ValueKind::Either),
            ("any", ValueKind::Either),
            ("one", ValueKind::Either),
            ("same", ValueKind::Json),
            ("unknown", ValueKind::Text),
        ] {
            assert_eq!(tools.kind("f", parameter), kind, "{parameter}");
        }
    }
}

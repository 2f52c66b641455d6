//! [`ToolCall`]: a call of a tool.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use serde_json::{Map, Value, json};

/// A call of a tool by a model. In JSON it has the form of OpenAI's API: `{"id", "type": "function", "function":
/// {"name", "arguments"}}` with the arguments as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolCall {
    /// Identifies the call: its result has the same id.
    pub id: String,
    /// The name of the tool.
    pub name: String,
    /// The arguments: the text of a JSON object.
    pub arguments: String,
}

impl ToolCall {
    /// The arguments as an object.
    ///
    /// # Errors
    /// The text is not a JSON object.
    pub fn object(&self) -> Result<Map<String, Value>, serde_json::Error> {
        serde_json::from_str(&self.arguments)
    }
}

impl Serialize for ToolCall {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let function = json!({ "name": self.name, "arguments": self.arguments });
        json!({ "id": self.id, "type": "function", "function": function }).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for ToolCall {
    /// As [`ToolCall::of_json`].
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::of_json(&Value::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

/// Why a value is no call of a tool.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct ToolCallFault {
    field: &'static str,
    reason: String,
}

impl ToolCallFault {
    /// The field of the call that has the fault, like `function.name`; empty: the call itself.
    pub fn field(&self) -> &'static str {
        self.field
    }
}

impl ToolCall {
    /// Reads a call in the form of OpenAI's API. Its arguments may also be an object, as some clients send them; no
    /// arguments are an empty object. The id may be missing.
    ///
    /// # Errors
    /// A field is missing, or has another type.
    pub fn of_json(value: &Value) -> Result<Self, ToolCallFault> {
        let fault = |field, reason: String| ToolCallFault { field, reason };
        if !value.is_object() {
            return Err(fault("", format!("{value} is not an object")));
        }
        if !value["type"].is_null() && value["type"] != "function" {
            return Err(fault("type", "only calls of the type function are supported".to_owned()));
        }
        let id = match &value["id"] {
            Value::Null => String::new(),
            Value::String(id) => id.clone(),
            other => return Err(fault("id", format!("expected a string, but it is {other}"))),
        };
        let function = &value["function"];
        let name = function["name"].as_str().filter(|name| !name.is_empty());
        let name = name.ok_or_else(|| {
            fault("function.name", "a tool call needs function.name, a string that is not empty".to_owned())
        })?;
        let arguments = match &function["arguments"] {
            Value::Null => "{}".to_owned(),
            Value::String(text) if text.trim().is_empty() => "{}".to_owned(),
            Value::String(text) => text.clone(),
            object @ Value::Object(_) => object.to_string(),
            other => {
                let reason = format!("expected the text of a JSON object for `{name}`, but it is {other}");
                return Err(fault("function.arguments", reason));
            }
        };
        let call = Self { id, name: name.to_owned(), arguments };
        match call.object() {
            Ok(_) => Ok(call),
            Err(error) => {
                let reason = format!("expected the text of a JSON object for `{name}`: {error}");
                Err(fault("function.arguments", reason))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_read_in_every_form() {
        let call = |arguments: Value| json!({ "id": "c", "type": "function", "function": { "name": "f", "arguments": arguments } });
        for (arguments, expected) in [
            (json!("{\"a\": 1}"), "{\"a\": 1}"),
            (json!({ "a": 1 }), "{\"a\":1}"),
            (json!(null), "{}"),
            (json!(" "), "{}"),
        ] {
            let read = ToolCall::of_json(&call(arguments)).unwrap();
            assert_eq!(read, ToolCall { id: "c".into(), name: "f".into(), arguments: expected.into() });
            assert_eq!(serde_json::from_value::<ToolCall>(json!(read)).unwrap(), read);
        }
        for (value, field) in [
            (json!(1), ""),
            (json!({ "type": "custom" }), "type"),
            (json!({ "id": 3 }), "id"),
            (json!({ "function": { "name": "" } }), "function.name"),
            (call(json!([1])), "function.arguments"),
            (call(json!("{")), "function.arguments"),
        ] {
            assert_eq!(ToolCall::of_json(&value).unwrap_err().field(), field, "{value}");
        }
    }
}

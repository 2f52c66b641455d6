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
    /// Arguments may also be an object, as some clients send them.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let function = &value["function"];
        let name =
            text(&function["name"]).ok_or_else(|| D::Error::custom("a tool call has no function.name"))?;
        let arguments = match &function["arguments"] {
            Value::String(text) => text.clone(),
            object @ Value::Object(_) => object.to_string(),
            Value::Null => "{}".to_owned(),
            other => {
                return Err(D::Error::custom(format!(
                    "function.arguments of `{name}`: {other} is not an object"
                )));
            }
        };
        Ok(Self { id: text(&value["id"]).unwrap_or_default(), name, arguments })
    }
}

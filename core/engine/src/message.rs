//! [`ChatMessage`]: a message of a conversation; how messages become a prompt.

use crate::setters::setters;
use menagerie_answers::{AnswerSyntax, ToolCall};
use serde::{Deserialize, Deserializer};

/// One message of a conversation.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ChatMessage {
    /// `system`, `user`, `assistant`, `tool`, or another role of the template.
    pub role: String,
    /// Its text; empty if it has none beside calls of tools.
    #[serde(default, deserialize_with = "text_or_null")]
    pub content: String,
    /// The assistant's reasoning before it.
    #[serde(default, rename = "reasoning_content", skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<String>,
    /// Calls of tools by the assistant.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// In a message of the role `tool`: the id of the call whose result it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// The name of the tool whose result it is, or of the author.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// A content of null, as interfaces write it beside calls, is an empty text.
fn text_or_null<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Ok(Option::<String>::deserialize(deserializer)?.unwrap_or_default())
}

impl ChatMessage {
    /// A message of any role.
    pub fn new(role: impl Into<String>, content: impl Into<String>) -> Self {
        let (role, content) = (role.into(), content.into());
        Self { role, content, reasoning: None, tool_calls: Vec::new(), tool_call_id: None, name: None }
    }

    /// A system message.
    pub fn system(content: impl Into<String>) -> Self {
        Self::new("system", content)
    }

    /// A message of the user.
    pub fn user(content: impl Into<String>) -> Self {
        Self::new("user", content)
    }

    /// An answer of the model.
    pub fn assistant(content: impl Into<String>) -> Self {
        Self::new("assistant", content)
    }

    /// The result of a call of a tool.
    pub fn tool_result(call: &ToolCall, content: impl Into<String>) -> Self {
        let (id, name) = (Some(call.id.clone()), Some(call.name.clone()));
        Self { tool_call_id: id, name, ..Self::new("tool", content) }
    }
}

/// How messages become a prompt.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RenderOptions {
    /// Whether the prompt ends where the assistant's answer starts.
    pub generation_prompt: bool,
    /// Whether the answer continues the last message, which is one of the assistant: the prompt then ends where its text
    /// ends.
    pub continue_final_message: bool,
    /// Tools that the model may call: JSON schema objects, as transformers passes them.
    pub tools: Option<Vec<serde_json::Value>>,
    /// Accepts tools although the format of calls is unknown, or not verified with the chat template. Calls then stay
    /// text.
    pub unverified_calls: bool,
    /// More template variables, for example `enable_thinking`.
    pub arguments: serde_json::Map<String, serde_json::Value>,
}

setters! { RenderOptions:
    with_generation_prompt(generation_prompt: bool),
    with_continue_final_message(continue_final_message: bool),
    with_tools(tools: impl Into<Option<Vec<serde_json::Value>>>),
    with_unverified_calls(unverified_calls: bool),
    with_arguments(arguments: serde_json::Map<String, serde_json::Value>),
}

impl Default for RenderOptions {
    fn default() -> Self {
        Self {
            generation_prompt: true,
            continue_final_message: false,
            tools: None,
            unverified_calls: false,
            arguments: serde_json::Map::new(),
        }
    }
}

/// A conversation as a prompt.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RenderedPrompt {
    /// The prompt's tokens; BOS occurs once.
    pub tokens: Vec<u32>,
    /// The prompt's text, as the template rendered it.
    pub text: String,
    /// What surrounds reasoning, text and calls in the answer.
    pub syntax: AnswerSyntax,
}

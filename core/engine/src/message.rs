//! [`ChatMessage`]: a message of a conversation, and how messages become a prompt.

use crate::reasoning::ReasoningTags;
use crate::setters::setters;

/// One message of a conversation.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ChatMessage {
    /// `system`, `user`, `assistant`, or what else a template knows.
    pub role: String,
    /// What was said.
    pub content: String,
    /// What the assistant thought before it.
    #[serde(default, rename = "reasoning_content", skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<String>,
}

impl ChatMessage {
    /// A message of any role.
    pub fn new(role: impl Into<String>, content: impl Into<String>) -> Self {
        Self { role: role.into(), content: content.into(), reasoning: None }
    }

    /// Instructions.
    pub fn system(content: impl Into<String>) -> Self {
        Self::new("system", content)
    }

    /// What the user says.
    pub fn user(content: impl Into<String>) -> Self {
        Self::new("user", content)
    }

    /// What the model said.
    pub fn assistant(content: impl Into<String>) -> Self {
        Self::new("assistant", content)
    }
}

/// How messages become a prompt.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RenderOptions {
    /// Whether the prompt ends where the assistant begins to speak.
    pub generation_prompt: bool,
    /// Tools the model may call: JSON schema objects, as transformers passes them.
    pub tools: Option<Vec<serde_json::Value>>,
    /// Further template variables, e.g. `enable_thinking`.
    pub arguments: serde_json::Map<String, serde_json::Value>,
}

setters! { RenderOptions:
    with_generation_prompt(generation_prompt: bool),
    with_tools(tools: impl Into<Option<Vec<serde_json::Value>>>),
    with_arguments(arguments: serde_json::Map<String, serde_json::Value>),
}

impl Default for RenderOptions {
    fn default() -> Self {
        Self { generation_prompt: true, tools: None, arguments: serde_json::Map::new() }
    }
}

/// A conversation as a prompt.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RenderedPrompt {
    /// The prompt's tokens; the beginning token occurs once.
    pub tokens: Vec<u32>,
    /// The prompt's text, as the template gave it.
    pub text: String,
    /// Tags around reasoning in the answer.
    pub reasoning_tags: Vec<ReasoningTags>,
    /// The pair the prompt left open: the answer begins inside it.
    pub reasoning_open: Option<ReasoningTags>,
}

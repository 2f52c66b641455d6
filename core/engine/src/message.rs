//! [`ChatMessage`]: a message of a conversation; how messages become a prompt.

use crate::reasoning::ReasoningTags;
use crate::setters::setters;

/// One message of a conversation.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ChatMessage {
    /// `system`, `user`, `assistant`, or another role of the template.
    pub role: String,
    /// Its text.
    pub content: String,
    /// The assistant's reasoning before it.
    #[serde(default, rename = "reasoning_content", skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<String>,
}

impl ChatMessage {
    /// A message of any role.
    pub fn new(role: impl Into<String>, content: impl Into<String>) -> Self {
        Self { role: role.into(), content: content.into(), reasoning: None }
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
}

/// How messages become a prompt.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RenderOptions {
    /// Whether the prompt ends where the assistant's answer starts.
    pub generation_prompt: bool,
    /// Tools that the model may call: JSON schema objects, as transformers passes them.
    pub tools: Option<Vec<serde_json::Value>>,
    /// More template variables, for example `enable_thinking`.
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
    /// The prompt's tokens; BOS occurs once.
    pub tokens: Vec<u32>,
    /// The prompt's text, as the template rendered it.
    pub text: String,
    /// Tags around reasoning in the answer.
    pub reasoning_tags: Vec<ReasoningTags>,
    /// The pair that the prompt leaves open: the answer starts inside it.
    pub reasoning_open: Option<ReasoningTags>,
}

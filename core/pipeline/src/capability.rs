//! What a pipeline can do: [`Pipeline`] and the capability traits, implemented only where they hold.
//!
//! A caller asks for what it needs by bounds. What depends on the file (a tokenizer, a chat template) is an object that
//! is there or not: [`crate::TextPipeline::tokenizer`] and [`crate::TextPipeline::chat_format`] give it or say why not.

use crate::chat::{ChatMessage, RenderOptions, RenderedPrompt};
use crate::error::{GenerateError, TextError};
use crate::reasoning::ReasoningTags;
use crate::session::Session;
use candle_core::{Device, Tensor};
use menagerie_model::{LayerHook, ModelError, StateSpec, StateStore, TransformContext};
use std::sync::Arc;

/// A model with everything that a forward needs.
pub trait Pipeline: Send + Sync {
    /// The model's name, for people.
    fn name(&self) -> &str;

    /// Where it computes.
    fn device(&self) -> &Device;

    /// One step: logits `[T', V]` of the rows that want them.
    ///
    /// # Errors
    /// What the model returns.
    fn forward(&self, context: &mut TransformContext) -> Result<Tensor, ModelError>;
}

/// Continues token sequences.
pub trait Autoregressive: Pipeline {
    /// Most tokens of a sequence, prompt and answer together.
    fn context(&self) -> usize;

    /// A sequence of its own; sessions share the model without a lock.
    ///
    /// # Errors
    /// The state cannot be allocated.
    fn session(&self) -> Result<Session, GenerateError>;
}

/// Keeps state between steps.
pub trait Cacheable: Pipeline {
    /// What it keeps, by state id.
    fn state_specs(&self) -> &[StateSpec];

    /// An empty store for `tokens` tokens of one sequence.
    ///
    /// # Errors
    /// A state cannot be stored as the pipeline's cache type.
    fn new_states(&self, tokens: usize) -> Result<StateStore, ModelError>;
}

/// Calls hooks around and inside layers.
pub trait Hookable: Pipeline {
    /// Adds a hook to sessions begun from now on.
    fn add_hook(&mut self, hook: Arc<dyn LayerHook>);
}

/// Text that grows token by token.
pub trait TextStream {
    /// The text that a token completes; incomplete UTF-8 is held back.
    ///
    /// # Errors
    /// The token is past the vocabulary.
    fn push(&mut self, id: u32) -> Result<String, TextError>;

    /// What is still held back, with replacement characters for what is not UTF-8.
    fn finish(&mut self) -> String;
}

/// Text to tokens and back.
pub trait Tokenizing: Send + Sync {
    /// Tokens of the vocabulary.
    fn vocabulary(&self) -> usize;

    /// A whole prompt, with the beginning (and end) tokens the file asks for. Special tokens written in it are text.
    ///
    /// # Errors
    /// The text cannot be split.
    fn encode_prompt(&self, text: &str) -> Result<Vec<u32>, TextError>;

    /// The tokens of a text, nothing added.
    ///
    /// # Errors
    /// The text cannot be split.
    fn encode(&self, text: &str) -> Result<Vec<u32>, TextError>;

    /// The text of one token, with replacement characters for parts of characters.
    fn piece(&self, id: u32) -> String;

    /// The text of a control token; `None` for tokens that are text.
    fn control_text(&self, id: u32) -> Option<String>;

    /// Every token that ends an answer.
    fn end_of_generation(&self) -> &[u32];

    /// A stream for one answer.
    fn stream(&self) -> Box<dyn TextStream + Send + '_>;
}

/// Messages to a prompt.
pub trait ChatCapable: Send + Sync {
    /// The prompt of a conversation. Special tokens come only from the template, never from a message.
    ///
    /// # Errors
    /// The template refuses the messages, or cannot be run.
    fn render_prompt(
        &self,
        messages: &[ChatMessage],
        options: &RenderOptions,
    ) -> Result<RenderedPrompt, TextError>;

    /// Tags around reasoning in this model's answers.
    fn reasoning_tags(&self) -> &[ReasoningTags];
}

/// A capability that a model does not have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MissingCapability {
    /// No tokenizer.
    #[error(
        "{model} cannot read or write text: {reason}; give token ids instead (--tokens), or a file with a tokenizer"
    )]
    Tokenizer {
        /// The model.
        model: String,
        /// Why there is none.
        reason: String,
    },
    /// No chat template.
    #[error(
        "{model} has no chat format: {reason}; use `run --raw` for plain continuation, or give a template"
    )]
    ChatTemplate {
        /// The model.
        model: String,
        /// Why there is none.
        reason: String,
    },
}

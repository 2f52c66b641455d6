//! What depends on the file: [`Tokenizing`] and [`ChatCapable`] are objects that are there or not;
//! [`crate::TextPipeline::tokenizer`] and [`crate::TextPipeline::chat_format`] give them or say why not.

use crate::error::TextError;
use crate::message::{ChatMessage, RenderOptions, RenderedPrompt};

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

    /// As [`Self::encode_prompt`], with at most `most` tokens: the last tokens of the text are left out, and what stands around
    /// it stays. Also how many were left out.
    ///
    /// # Errors
    /// As [`Self::encode_prompt`].
    fn encode_prompt_within(&self, text: &str, most: usize) -> Result<(Vec<u32>, usize), TextError>;

    /// The token that every text begins with, where the file asks for one.
    fn beginning(&self) -> Option<u32>;

    /// A question and an answer as one prompt for a reranker, and where the second begins.
    ///
    /// # Errors
    /// A text cannot be split.
    fn encode_pair(&self, first: &str, second: &str) -> Result<(Vec<u32>, usize), TextError>;

    /// As [`Self::encode_pair`], with at most `most` tokens: the last tokens of the longer text are left out, of both once they
    /// are equally long (`longest_first` of transformers); in a template those of the second. Also how many were left out.
    ///
    /// # Errors
    /// As [`Self::encode_pair`].
    fn encode_pair_within(
        &self,
        first: &str,
        second: &str,
        most: usize,
    ) -> Result<((Vec<u32>, usize), usize), TextError>;

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

    /// A decoder for the tokens of one answer.
    fn stream(&self) -> Box<dyn TextStream + Send>;
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

    /// What tells this format from others: two formats of one identity make the same prompts of the same messages with the
    /// same tokenizer.
    fn identity(&self) -> String;
}

//! Capabilities that depend on the file: [`Tokenizing`] and [`ChatCapable`] are objects that a pipeline has or lacks;
//! [`crate::TextPipeline::tokenizer`] and [`crate::TextPipeline::chat_format`] return them, or why they are missing.

use crate::error::TextError;
use crate::message::{ChatMessage, RenderOptions, RenderedPrompt};

/// Decodes an answer token by token.
pub trait TextStream {
    /// Adds a token. Returns the text that it completes; incomplete UTF-8 is held back.
    ///
    /// # Errors
    /// The token is past the vocabulary.
    fn push(&mut self, id: u32) -> Result<String, TextError>;

    /// The text that was held back; bytes that are not UTF-8 become replacement characters.
    fn finish(&mut self) -> String;
}

/// The tokens of a prompt for a text with a gap (fill in the middle): each is before a part of the prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct InfillTokens {
    /// Before the text in front of the gap.
    pub prefix: u32,
    /// Before the text behind the gap.
    pub suffix: u32,
    /// Before the text in the gap, which is the answer.
    pub middle: u32,
    /// Before another file, if the model knows several.
    pub file: Option<u32>,
}

impl InfillTokens {
    /// The tokens before the text in front of the gap, behind it, and in it; none before another file.
    pub fn new(prefix: u32, suffix: u32, middle: u32) -> Self {
        Self { prefix, suffix, middle, file: None }
    }

    /// The same with a token before another file.
    #[must_use]
    pub fn with_file(self, file: Option<u32>) -> Self {
        Self { file, ..self }
    }
}

/// Text to tokens and back.
pub trait Tokenizing: Send + Sync {
    /// The size of the vocabulary.
    fn vocabulary(&self) -> usize;

    /// Encodes a whole prompt, with the BOS and EOS tokens that the file asks for. Special tokens in the text are
    /// encoded as plain text.
    ///
    /// # Errors
    /// The text cannot be tokenized.
    fn encode_prompt(&self, text: &str) -> Result<Vec<u32>, TextError>;

    /// As [`Self::encode_prompt`], with at most `most` tokens: the last tokens of the text are cut, and the special
    /// tokens around it stay. Also returns how many were cut.
    ///
    /// # Errors
    /// As [`Self::encode_prompt`].
    fn encode_prompt_within(&self, text: &str, most: usize) -> Result<(Vec<u32>, usize), TextError>;

    /// The token with which every text starts (BOS), if the file asks for one.
    fn beginning(&self) -> Option<u32>;

    /// Encodes a query and a document as one prompt for a reranker. Also returns where the document starts.
    ///
    /// # Errors
    /// A text cannot be tokenized.
    fn encode_pair(&self, first: &str, second: &str) -> Result<(Vec<u32>, usize), TextError>;

    /// As [`Self::encode_pair`], with at most `most` tokens: the last tokens of the longer text are cut, and of both
    /// once they are equally long (`longest_first` of transformers); in a template those of the document. Also returns
    /// how many were cut.
    ///
    /// # Errors
    /// As [`Self::encode_pair`].
    fn encode_pair_within(
        &self,
        first: &str,
        second: &str,
        most: usize,
    ) -> Result<((Vec<u32>, usize), usize), TextError>;

    /// Encodes a text without special tokens.
    ///
    /// # Errors
    /// The text cannot be tokenized.
    fn encode(&self, text: &str) -> Result<Vec<u32>, TextError>;

    /// The text of one token; parts of characters become replacement characters.
    fn piece(&self, id: u32) -> String;

    /// The bytes of one token, which may be a part of a character; of a special token those of its name. Empty for
    /// unused ids and past the vocabulary.
    fn bytes(&self, id: u32) -> Vec<u8>;

    /// Whether a token is not text: it has a name, and an answer does not contain it. False past the vocabulary.
    fn is_control(&self, id: u32) -> bool;

    /// The text of a control token; `None` for tokens that are text.
    fn control_text(&self, id: u32) -> Option<String>;

    /// Every token that ends an answer.
    fn end_of_generation(&self) -> &[u32];

    /// The tokens of a prompt for a text with a gap, if the model was trained for it. By default none.
    fn infill(&self) -> Option<InfillTokens> {
        None
    }

    /// A decoder for the tokens of one answer.
    fn stream(&self) -> Box<dyn TextStream + Send>;
}

/// Messages to a prompt.
pub trait ChatCapable: Send + Sync {
    /// The prompt of a conversation. Special tokens come only from the template, never from a message.
    ///
    /// # Errors
    /// The template rejects the messages, or cannot be evaluated; the last message cannot be continued, if that is asked for.
    fn render_prompt(
        &self,
        messages: &[ChatMessage],
        options: &RenderOptions,
    ) -> Result<RenderedPrompt, TextError>;

    /// The source of the template, to show it. By default there is none.
    fn template(&self) -> Option<&str> {
        None
    }

    /// Identifies the format: two formats with the same identity make the same prompts of the same messages, with the
    /// same tokenizer.
    fn identity(&self) -> String;
}

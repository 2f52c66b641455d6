//! [`Prompt`]: what a generation continues.

use crate::capability::Tokenizing;
use crate::error::{GenerateError, MissingCapability};
use crate::message::RenderedPrompt;
use menagerie_answers::{AnswerParser, AnswerSyntax};
use std::borrow::Cow;

/// What a generation continues. Strings, slices and vectors of tokens, and rendered conversations convert into it with
/// `into`.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Prompt<'a> {
    /// Text, encoded with the BOS and EOS tokens that the file asks for. Special tokens in it are text.
    Text(Cow<'a, str>),
    /// Token ids, used as they are.
    Tokens(Cow<'a, [u32]>),
    /// A conversation in the chat template; reasoning and calls of tools are separated from the text of the answer.
    Rendered(Cow<'a, RenderedPrompt>),
}

impl<'a> Prompt<'a> {
    /// Its tokens, and the parser of the answer to it.
    ///
    /// # Errors
    /// The prompt is text and there is no tokenizer, or the text cannot be tokenized.
    pub(crate) fn encoded(
        self,
        tokenizer: Option<&dyn Tokenizing>,
    ) -> Result<(Cow<'a, [u32]>, AnswerParser), GenerateError> {
        let plain = || AnswerParser::new(&AnswerSyntax::default());
        Ok(match self {
            Self::Text(text) => {
                let tokenizer = tokenizer.ok_or_else(|| MissingCapability::Tokenizer {
                    model: "the model".to_owned(),
                    reason: "a text prompt needs a tokenizer; pass the prompt as tokens".to_owned(),
                })?;
                (Cow::Owned(tokenizer.encode_prompt(&text)?), plain())
            }
            Self::Tokens(tokens) => (tokens, plain()),
            Self::Rendered(prompt) => {
                let parser = AnswerParser::new(&prompt.syntax);
                let tokens = match prompt {
                    Cow::Borrowed(prompt) => Cow::Borrowed(&*prompt.tokens),
                    Cow::Owned(prompt) => Cow::Owned(prompt.tokens),
                };
                (tokens, parser)
            }
        })
    }
}

impl<'a> From<&'a str> for Prompt<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(text.into())
    }
}

impl<'a> From<&'a String> for Prompt<'a> {
    fn from(text: &'a String) -> Self {
        Self::Text(text.into())
    }
}

impl From<String> for Prompt<'_> {
    fn from(text: String) -> Self {
        Self::Text(text.into())
    }
}

impl<'a> From<&'a [u32]> for Prompt<'a> {
    fn from(tokens: &'a [u32]) -> Self {
        Self::Tokens(tokens.into())
    }
}

impl<'a, const N: usize> From<&'a [u32; N]> for Prompt<'a> {
    fn from(tokens: &'a [u32; N]) -> Self {
        Self::Tokens(tokens.as_slice().into())
    }
}

impl<'a> From<&'a Vec<u32>> for Prompt<'a> {
    fn from(tokens: &'a Vec<u32>) -> Self {
        Self::Tokens(tokens.into())
    }
}

impl From<Vec<u32>> for Prompt<'_> {
    fn from(tokens: Vec<u32>) -> Self {
        Self::Tokens(tokens.into())
    }
}

impl<'a> From<&'a RenderedPrompt> for Prompt<'a> {
    fn from(prompt: &'a RenderedPrompt) -> Self {
        Self::Rendered(Cow::Borrowed(prompt))
    }
}

impl From<RenderedPrompt> for Prompt<'_> {
    fn from(prompt: RenderedPrompt) -> Self {
        Self::Rendered(Cow::Owned(prompt))
    }
}

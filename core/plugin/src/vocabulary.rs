//! [`Vocabulary`]: the tokens of a file.

use crate::abi;
use crate::build::filled;
use crate::error::Result;
use crate::text::given;

/// The tokens of a file.
#[derive(Clone, Copy, Debug)]
pub struct Vocabulary<'a> {
    raw: &'a abi::Vocabulary,
}

/// A token of a vocabulary.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Token<'a> {
    /// As the file writes it, in the writing of its algorithm.
    pub text: &'a str,
    /// GGUF's `tokenizer.ggml.token_type`: 1 normal, 2 unknown, 3 control, 4 of the user, 5 unused, 6 a byte.
    pub kind: i32,
    /// GGUF's `tokenizer.ggml.scores`; 0 where there are none.
    pub score: f32,
}

impl<'a> Vocabulary<'a> {
    pub(crate) fn of(raw: &'a abi::Vocabulary) -> Vocabulary<'a> {
        Vocabulary { raw }
    }

    /// Number of tokens; their ids are `0..tokens`.
    pub fn tokens(&self) -> u32 {
        u32::try_from(self.raw.tokens).unwrap_or(u32::MAX)
    }

    /// Merges of pairs, the first to be done first.
    pub fn merges(&self) -> usize {
        self.raw.merges as usize
    }

    /// A token.
    ///
    /// # Errors
    /// An unknown id; a text that is not UTF-8.
    pub fn token(&self, id: u32) -> Result<Token<'a>> {
        // SAFETY: the vocabulary's function with its context; the text lives for the life of the instance.
        let token = filled(|token| unsafe { (self.raw.token)(self.raw.context, id, token) })?;
        let abi::Token { text, kind, score } = token;
        // SAFETY: as above.
        Ok(Token { text: unsafe { given(text, &format!("token {id}")) }?, kind, score })
    }

    /// A merge: its two tokens with a space between.
    ///
    /// # Errors
    /// An unknown number; a text that is not UTF-8.
    pub fn merge(&self, index: usize) -> Result<&'a str> {
        // SAFETY: as in `token`.
        let merge = filled(|merge| unsafe { (self.raw.merge)(self.raw.context, index as u64, merge) })?;
        // SAFETY: as above.
        unsafe { given(merge, &format!("merge {index}")) }
    }
}

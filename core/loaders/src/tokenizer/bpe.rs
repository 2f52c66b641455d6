//! Byte pair encoding: text is split into pieces, the pieces into bytes or characters, and these are merged.
//!
//! This does not use the tokenizers crate, which takes 0.3 to 0.5 s to build a vocabulary of 150,000 tokens (it
//! stores the text of every token and merge twice); the tests compare with it.

use gguf_file::Metadata;

use super::budget::Budget;
use super::byte_letters;
use super::error::TokenizerError;
use super::merges::{Merges, takes_part};
use super::splitter::Splitter;
use super::vocabulary::Vocabulary;
use crate::tables::PreTokenizerEntry;

/// A splitter, the merges of a file, and the tokens of single bytes.
#[derive(Debug)]
pub(crate) struct Bpe {
    splitter: Splitter,
    merges: Merges,
    bytes: Vec<Option<u32>>,
    ignore_merges: bool,
    /// Tokens are text with U+2581 for spaces and `<0xNN>` for bytes, not byte letters.
    text: bool,
}

impl Bpe {
    /// Reads the merges and looks up the byte tokens (GPT-2's letters, or `<0xNN>`).
    pub(crate) fn new(
        metadata: &Metadata,
        vocabulary: &Vocabulary,
        pre: &PreTokenizerEntry,
    ) -> Result<Self, TokenizerError> {
        let byte_token = |byte: u8| match pre.text {
            true => vocabulary.id(&format!("<0x{byte:02X}>")),
            false => token(vocabulary, byte_letters::letter(byte).encode_utf8(&mut [0; 4])),
        };
        Ok(Self {
            splitter: Splitter::new(&pre.regexes)
                .map_err(|(regex, problem)| TokenizerError::PreRegex { regex, problem })?,
            merges: Merges::read(metadata, vocabulary)?,
            bytes: (0..=u8::MAX).map(byte_token).collect(),
            ignore_merges: pre.ignore_merges,
            text: pre.text,
        })
    }

    /// Whether the tokens are text in characters, not in byte letters.
    pub(crate) fn spells_text(&self) -> bool {
        self.text
    }

    /// Appends the ids of a text without special tokens.
    ///
    /// # Errors
    /// The regex failed, or a byte or character has no token.
    pub(crate) fn encode(
        &self,
        vocabulary: &Vocabulary,
        text: &str,
        budget: &Budget,
        out: &mut Vec<u32>,
    ) -> Result<(), TokenizerError> {
        let escaped = if self.text { text.replace(' ', "\u{2581}") } else { String::new() };
        let text = if self.text { escaped.as_str() } else { text };
        let mut ids = Vec::new();
        for piece in self.splitter.split(text, budget)? {
            if let Some(id) = self.whole(vocabulary, piece) {
                out.push(id);
                continue;
            }
            ids.clear();
            self.spell(vocabulary, piece, &mut ids)?;
            self.merges.apply(&ids, out);
        }
        Ok(())
    }

    /// The token of a whole piece, if it takes precedence over merging: `ignore_merges`, and line breaks in
    /// vocabularies of plain text (llama.cpp, pull request 21343).
    fn whole(&self, vocabulary: &Vocabulary, piece: &str) -> Option<u32> {
        if self.text {
            return piece.bytes().all(|byte| byte == b'\n').then(|| token(vocabulary, piece)).flatten();
        }
        self.ignore_merges.then(|| token(vocabulary, &byte_letters::to_letters(piece))).flatten()
    }

    /// The tokens of the characters or bytes of a piece.
    fn spell(&self, vocabulary: &Vocabulary, piece: &str, ids: &mut Vec<u32>) -> Result<(), TokenizerError> {
        for character in piece.chars() {
            let mut buffer = [0; 4];
            let text: &str = character.encode_utf8(&mut buffer);
            let whole = self.text.then(|| token(vocabulary, text)).flatten();
            if let Some(id) = whole {
                ids.push(id);
                continue;
            }
            for byte in text.bytes() {
                let id = self.bytes.get(usize::from(byte)).copied().flatten();
                ids.push(id.ok_or_else(|| TokenizerError::NoToken {
                    what: format!("the byte 0x{byte:02X} of {character:?} in {piece:?}"),
                })?);
            }
        }
        Ok(())
    }
}

/// The token with this text, if plain text may become it.
fn token(vocabulary: &Vocabulary, text: &str) -> Option<u32> {
    vocabulary.id(text).filter(|id| takes_part(vocabulary.kind(*id)))
}

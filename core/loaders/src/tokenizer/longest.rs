//! The longest token first, over bytes (RWKV's "world" vocabulary: trie tokenizer of ChatRWKV).

use super::budget::Budget;
use super::error::TokenizerError;
use super::kind::TokenKind;
use super::prefixes::Prefixes;
use super::vocabulary::Vocabulary;

/// All tokens of plain text; their texts are escaped in the file, because they need not be UTF-8.
#[derive(Debug)]
pub(crate) struct Longest {
    tokens: Prefixes,
    unknown: Option<u32>,
}

impl Longest {
    /// Uses ordinary and user-defined tokens; `unknown` replaces a byte with which no token begins.
    pub(crate) fn new(vocabulary: &Vocabulary, unknown: Option<u32>) -> Self {
        let text = |kind| matches!(kind, TokenKind::Normal | TokenKind::UserDefined);
        let tokens = vocabulary.iter().filter(|(_, _, kind)| text(*kind));
        Self { tokens: Prefixes::new(tokens.map(|(id, text, _)| (id, unescape(text)))), unknown }
    }

    /// Appends the ids of a text without special tokens.
    ///
    /// # Errors
    /// No token begins with a byte and the vocabulary has no unknown token, or the budget is exhausted.
    pub(crate) fn encode(
        &self,
        text: &str,
        budget: &Budget,
        out: &mut Vec<u32>,
    ) -> Result<(), TokenizerError> {
        let mut rest = text.as_bytes();
        while let Some(byte) = rest.first() {
            let (length, id) = match (self.tokens.longest(rest, budget)?, self.unknown) {
                (Some(found), _) => found,
                (None, Some(unknown)) => (1, unknown),
                (None, None) => {
                    return Err(TokenizerError::NoToken { what: format!("the byte 0x{byte:02X}") });
                }
            };
            out.push(id);
            rest = rest.get(length..).unwrap_or_default();
        }
        Ok(())
    }
}

/// The bytes of a token's text: `\t`, `\n`, `\r`, `\xNN`, and any other character after `\` itself
/// (llama-vocab.cpp, `llama_unescape_rwkv_token`).
pub(crate) fn unescape(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.chars();
    let push = |character: char, bytes: &mut Vec<u8>| {
        bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
    };
    while let Some(character) = rest.next() {
        if character != '\\' {
            push(character, &mut bytes);
            continue;
        }
        match rest.next() {
            Some('t') => bytes.push(b'\t'),
            Some('n') => bytes.push(b'\n'),
            Some('r') => bytes.push(b'\r'),
            Some('x') => {
                let digits = [rest.next(), rest.next()].map(|digit| digit.and_then(|it| it.to_digit(16)));
                if let [Some(high), Some(low)] = digits {
                    bytes.extend(u8::try_from(high * 16 + low));
                }
            }
            Some(other) => push(other, &mut bytes),
            None => {}
        }
    }
    bytes
}

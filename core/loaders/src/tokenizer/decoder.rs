//! Ids to text, one at a time.

use super::Tokenizer;
use super::algorithm::Leading;
use super::error::TokenizerError;
use super::kind::TokenKind;

/// Options of a [`TextDecoder`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct TextDecoderOptions {
    /// Whether special tokens are shown by name; otherwise they produce no text.
    pub(crate) show_special: bool,
    /// Whether the first token begins a text, whose first space an SPM vocabulary added; otherwise the tokens continue a
    /// prompt.
    pub(crate) at_start: bool,
}

/// The text of a growing list of ids; bytes of an incomplete character are kept back.
#[derive(Debug, Clone)]
pub struct TextDecoder {
    tokenizer: Tokenizer,
    options: TextDecoderOptions,
    held: Vec<u8>,
    leading: Leading,
}

impl TextDecoder {
    /// A decoder for tokens that continue a prompt; special tokens produce no text.
    pub fn new(tokenizer: &Tokenizer) -> Self {
        Self::with_options(tokenizer, TextDecoderOptions::default())
    }

    /// A decoder with options.
    pub(crate) fn with_options(tokenizer: &Tokenizer, options: TextDecoderOptions) -> Self {
        let leading = if options.at_start { tokenizer.leading() } else { Leading::Kept };
        Self { tokenizer: tokenizer.clone(), options, held: Vec::new(), leading }
    }

    /// The text that this token completes, possibly empty; bytes that cannot become a character are replaced by
    /// U+FFFD.
    ///
    /// # Errors
    /// The id is outside of the vocabulary.
    pub fn push(&mut self, id: u32) -> Result<String, TokenizerError> {
        let kind = self.tokenizer.token_kind(id)?;
        let special = matches!(kind, TokenKind::Control | TokenKind::Unknown);
        if special && !self.options.show_special {
            return Ok(String::new());
        }
        let bytes = self.tokenizer.token_bytes(id)?;
        let mut bytes = bytes.as_slice();
        if !special {
            let gone = match std::mem::replace(&mut self.leading, Leading::Kept) {
                Leading::Kept => 0,
                Leading::OneGone => 1,
                Leading::AllGone => bytes.len(),
            };
            for _ in 0..gone {
                bytes = bytes.strip_prefix(b" ").unwrap_or(bytes);
            }
        }
        self.held.extend_from_slice(bytes);
        Ok(self.take_complete())
    }

    /// The bytes that are still kept back, incomplete characters as U+FFFD; afterwards the decoder is like new, but
    /// not at a start.
    pub fn flush(&mut self) -> String {
        let text = String::from_utf8_lossy(&self.held).into_owned();
        self.held.clear();
        text
    }

    fn take_complete(&mut self) -> String {
        let mut text = String::new();
        let mut rest = self.held.as_slice();
        loop {
            match std::str::from_utf8(rest) {
                Ok(all) => {
                    text.push_str(all);
                    rest = &[];
                    break;
                }
                Err(error) => {
                    let (good, bad) = rest.split_at_checked(error.valid_up_to()).unwrap_or_default();
                    text.push_str(&String::from_utf8_lossy(good));
                    rest = bad;
                    let Some(invalid) = error.error_len() else {
                        break;
                    };
                    text.push(char::REPLACEMENT_CHARACTER);
                    rest = rest.get(invalid..).unwrap_or_default();
                }
            }
        }
        self.held = rest.to_vec();
        text
    }
}

impl Tokenizer {
    /// The text of ids from the start of a text; special tokens by name with `show_special`, otherwise left out.
    ///
    /// # Errors
    /// An id is outside of the vocabulary.
    pub fn decode(&self, ids: &[u32], show_special: bool) -> Result<String, TokenizerError> {
        let mut decoder =
            TextDecoder::with_options(self, TextDecoderOptions { show_special, at_start: true });
        let mut text = String::new();
        for id in ids {
            text.push_str(&decoder.push(*id)?);
        }
        text.push_str(&decoder.flush());
        Ok(text)
    }
}

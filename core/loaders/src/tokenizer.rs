//! Text to token ids and back, with the tokenizer of a model file.

mod algorithm;
mod bpe;
mod budget;
mod build;
mod byte_letters;
mod char_class;
mod character_map;
mod cheapest;
mod codec;
mod decoder;
mod ends;
mod error;
mod finder;
pub(crate) mod framing;
mod infill;
pub(crate) mod json;
pub(crate) mod keys;
mod kind;
mod longest;
mod merges;
mod prefixes;
pub(crate) mod regex_room;
mod special;
mod splitter;
mod spm;
mod text_index;
mod unigram;
pub(crate) mod vocabulary;
mod word_piece;

#[cfg(test)]
pub(crate) mod tests;

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use gguf_file::Metadata;

pub use codec::{CodecEntry, CodecKind, CodecToken, CodecVocabulary, TextCodec};
pub use decoder::TextDecoder;
pub use error::TokenizerError;
pub use infill::InfillPart;
pub use kind::TokenKind;
pub use special::Special;

use crate::segment::Segment;
use crate::tables::TokenizerTables;
use algorithm::{Algorithm, Before, Leading};
use budget::Budget;
use build::TokenizerBuilder;
use framing::Framing;
use infill::InfillIds;
use special::{Fragment, SpecialTokens, Trust};
pub(crate) use splitter::Splitter;
use vocabulary::Vocabulary;

/// A vocabulary with its encoding algorithm; cheap to clone and to share between threads.
#[derive(Clone)]
pub struct Tokenizer {
    parts: Arc<TokenizerParts>,
    ends: Arc<[u32]>,
}

struct TokenizerParts {
    vocabulary: Vocabulary,
    special: SpecialTokens,
    algorithm: Algorithm,
    tables: Arc<TokenizerTables>,
    model: String,
    pre: Option<String>,
    bos: Option<u32>,
    eos: Option<u32>,
    add_bos: bool,
    add_eos: bool,
    framing: Framing,
    infill: InfillIds,
}

/// Input of a tokenizer besides its file.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct TokenizerOptions<'a> {
    /// The pre-tokenizer for files that name none (a spec's `[tokenizer] pre`).
    pub pre: Option<&'a str>,
    /// Pre-tokenizers, vocabulary kinds and texts; `None` is [`TokenizerTables::built_in`].
    pub tables: Option<Arc<TokenizerTables>>,
}

impl<'a> TokenizerOptions<'a> {
    /// The same with this [`Self::pre`].
    #[must_use]
    pub fn with_pre(self, pre: impl Into<Option<&'a str>>) -> Self {
        Self { pre: pre.into(), ..self }
    }

    /// The same with this [`Self::tables`].
    #[must_use]
    pub fn with_tables(self, tables: impl Into<Option<Arc<TokenizerTables>>>) -> Self {
        Self { tables: tables.into(), ..self }
    }
}

impl Tokenizer {
    /// Builds the tokenizer of a file.
    ///
    /// # Errors
    /// An unsupported algorithm, an unknown or missing pre-tokenizer, damaged lists.
    pub fn from_gguf(metadata: &Metadata, options: &TokenizerOptions<'_>) -> Result<Self, TokenizerError> {
        let model = keys::text(metadata, keys::MODEL)?.ok_or(TokenizerError::MissingKey {
            key: keys::MODEL,
            advice: "the file holds no tokenizer; use one that does, or give token ids",
        })?;
        let tables = match &options.tables {
            Some(tables) => Arc::clone(tables),
            None => TokenizerTables::built_in()?,
        };
        TokenizerBuilder { metadata, model, tables }.run(options.pre)
    }

    /// The same tokenizer with additional end-of-generation tokens (a spec's `[tokenizer] end`); texts that the
    /// vocabulary does not contain are ignored.
    pub fn with_end_tokens<S: AsRef<str>>(self, texts: &[S]) -> Self {
        let mut ends: BTreeSet<u32> = self.ends.iter().copied().collect();
        ends.extend(texts.iter().filter_map(|text| self.id_of(text.as_ref())));
        Self { parts: self.parts, ends: ends.into_iter().collect() }
    }

    /// The ids of a text, without beginning- and end-of-sequence tokens (see [`Self::frame`]).
    ///
    /// # Errors
    /// A character that the vocabulary cannot express, or a text on which the pre-tokenizer fails.
    pub fn encode(&self, text: &str, special: Special) -> Result<Vec<u32>, TokenizerError> {
        self.encode_fragments(text, Trust::Whole(special))
    }

    /// The ids of a prompt in parts, encoded as one text; only text that is completely inside trusted parts can be a
    /// special token.
    ///
    /// # Errors
    /// The errors of [`Self::encode`].
    pub fn encode_segments(&self, segments: &[Segment]) -> Result<Vec<u32>, TokenizerError> {
        let mut text = String::with_capacity(segments.iter().map(|segment| segment.text.len()).sum());
        let mut trusted: Vec<Range<usize>> = Vec::new();
        for segment in segments {
            let start = text.len();
            text.push_str(&segment.text);
            match trusted.last_mut() {
                Some(last) if segment.trusted && last.end == start => last.end = text.len(),
                _ if segment.trusted && text.len() > start => trusted.push(start..text.len()),
                _ => {}
            }
        }
        self.encode_fragments(&text, Trust::Ranges(&trusted))
    }

    fn encode_fragments(&self, text: &str, trust: Trust<'_>) -> Result<Vec<u32>, TokenizerError> {
        let vocabulary = &self.parts.vocabulary;
        let budget = Budget::of(text);
        let mut ids = Vec::with_capacity(text.len() / 3);
        if let Algorithm::Staged(staged) = &self.parts.algorithm {
            staged.encode(vocabulary, text, trust, &budget, &mut ids)?;
            return Ok(ids);
        }
        let mut before = Before::Start;
        for fragment in self.parts.special.partition(vocabulary, text, trust, &budget)? {
            before = match fragment {
                Fragment::Token(id) => {
                    ids.push(id);
                    Before::Start
                }
                Fragment::Text(part) => {
                    self.parts.algorithm.encode(vocabulary, part, before, &budget, &mut ids)?;
                    Before::Text
                }
            };
        }
        Ok(ids)
    }

    /// Adds the beginning-of-sequence token at the start and the end-of-sequence token (or separator) at the end, if
    /// the model uses them and they are not present (a chat template may have written them).
    pub fn frame(&self, ids: Vec<u32>) -> Vec<u32> {
        self.parts.framing.around(ids)
    }

    /// A query and a document for a reranker: the first with its special tokens, a separator if the model uses one,
    /// and the second with the same end. Also returns the position where the second begins.
    pub fn frame_pair(&self, first: Vec<u32>, second: &[u32]) -> (Vec<u32>, usize) {
        self.parts.framing.pair(first, second)
    }

    /// The tables that it was built with.
    pub fn tables(&self) -> &TokenizerTables {
        &self.parts.tables
    }

    /// The value of `tokenizer.ggml.model`.
    pub fn model(&self) -> &str {
        &self.parts.model
    }

    /// The pre-tokenizer in use; only byte pair encoding with merges has one.
    pub fn pre(&self) -> Option<&str> {
        self.parts.pre.as_deref()
    }

    /// The number of tokens of the vocabulary; a model's embedding may have more rows.
    pub fn vocab_size(&self) -> usize {
        self.parts.vocabulary.len()
    }

    /// The beginning-of-sequence token.
    pub fn bos(&self) -> Option<u32> {
        self.parts.bos
    }

    /// The end-of-sequence token.
    pub fn eos(&self) -> Option<u32> {
        self.parts.eos
    }

    /// Whether prompts begin with [`Self::bos`].
    pub fn adds_bos(&self) -> bool {
        self.parts.add_bos
    }

    /// Whether prompts end with [`Self::eos`].
    pub fn adds_eos(&self) -> bool {
        self.parts.add_eos
    }

    /// The token before a part of a prompt for a text with a gap, if the vocabulary has one.
    pub fn infill_token(&self, part: InfillPart) -> Option<u32> {
        self.parts.infill.of(part)
    }

    /// The treatment of leading spaces of a decoded text.
    pub(crate) fn leading(&self) -> Leading {
        self.parts.algorithm.leading()
    }

    /// All ids that end a generation, sorted.
    pub fn end_of_generation(&self) -> &[u32] {
        &self.ends
    }

    /// The id of the token with exactly this text.
    pub(crate) fn id_of(&self, text: &str) -> Option<u32> {
        self.parts.vocabulary.id(text)
    }

    /// The text of a token as the vocabulary spells it (`Ġthe`, `▁the`, `<0x0A>`).
    ///
    /// # Errors
    /// The id is outside of the vocabulary.
    pub fn token_text(&self, id: u32) -> Result<&str, TokenizerError> {
        self.parts.vocabulary.text(id).ok_or(TokenizerError::IdOutOfRange { id, size: self.vocab_size() })
    }

    /// The kind of a token.
    ///
    /// # Errors
    /// The id is outside of the vocabulary.
    pub fn token_kind(&self, id: u32) -> Result<TokenKind, TokenizerError> {
        self.token_text(id).map(|_| self.parts.vocabulary.kind(id))
    }

    /// The bytes of a token, special tokens by name; empty for unused ids.
    ///
    /// # Errors
    /// The id is outside of the vocabulary, or a registered tokenizer reports an error.
    pub fn token_bytes(&self, id: u32) -> Result<Vec<u8>, TokenizerError> {
        let text = self.token_text(id)?;
        Ok(match self.parts.vocabulary.kind(id) {
            TokenKind::Control | TokenKind::Unknown | TokenKind::UserDefined => text.as_bytes().to_vec(),
            TokenKind::Unused => Vec::new(),
            TokenKind::Byte => byte_of(text).map_or_else(|| text.as_bytes().to_vec(), |byte| vec![byte]),
            TokenKind::Normal => match &self.parts.algorithm {
                Algorithm::Codec(codec) => codec.bytes(id)?,
                algorithm => algorithm.bytes(text),
            },
        })
    }

    /// The bytes of a token as text, incomplete characters as U+FFFD: for listings.
    ///
    /// # Errors
    /// The id is outside of the vocabulary.
    pub fn token_piece(&self, id: u32) -> Result<String, TokenizerError> {
        Ok(String::from_utf8_lossy(&self.token_bytes(id)?).into_owned())
    }

    /// The texts that only trusted text can turn into their special tokens, by id.
    pub fn guarded_texts(&self) -> Vec<&str> {
        let vocabulary = &self.parts.vocabulary;
        let guarded = vocabulary.iter().filter(|(id, _, _)| special::is_guarded(vocabulary, *id));
        guarded.map(|(_, text, _)| text).collect()
    }
}

impl fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tokenizer({}, {:?}, {} tokens)", self.model(), self.pre(), self.vocab_size())
    }
}

/// The byte of a token written `<0xNN>`.
fn byte_of(text: &str) -> Option<u8> {
    u8::from_str_radix(text.strip_prefix("<0x")?.strip_suffix('>')?, 16).ok()
}

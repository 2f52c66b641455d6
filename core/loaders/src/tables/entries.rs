//! The entries of the tables.

use crate::tokenizer::InfillPart;
use menagerie_answers::{CallFormat, ContentTags};
use std::sync::Arc;

/// How a vocabulary splits text before merging, and related settings (`[[pre]]`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct PreTokenizerEntry {
    /// Regexes; each splits the pieces of the one before it.
    pub(crate) regexes: Vec<String>,
    /// A piece that is a token becomes that token without merging.
    pub(crate) ignore_merges: bool,
    /// Whether the beginning-of-sequence token is added if the file does not say it.
    pub(crate) add_bos: bool,
    /// Tokens are text with U+2581 for spaces, not GPT-2's byte letters.
    pub(crate) text: bool,
}

/// The algorithm from text to tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Algorithm {
    /// SentencePiece's byte pair encoding, by scores.
    Spm,
    /// Byte pair encoding by merges.
    Bpe,
    /// BERT's WordPiece: the longest match first.
    WordPiece,
    /// SentencePiece's unigram model: the best sum of scores.
    Unigram,
    /// The longest token first.
    Longest,
    /// The smallest sum of costs, with bytes for text without tokens.
    Cheapest,
}

impl Algorithm {
    /// All of them, with their names in the tables.
    pub(crate) const NAMES: [(&str, Self); 6] = [
        ("spm", Self::Spm),
        ("bpe", Self::Bpe),
        ("wordpiece", Self::WordPiece),
        ("unigram", Self::Unigram),
        ("longest", Self::Longest),
        ("cheapest", Self::Cheapest),
    ];
}

/// The meaning of a value of `tokenizer.ggml.model` (`[[vocabulary]]`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum VocabularyKind {
    /// A built-in algorithm; `pre` is the pre-tokenizer that the name implies, whatever the file says.
    Known { algorithm: Algorithm, pre: Option<String> },
    /// A registered tokenizer, `author/name:tokenizer`, with its options.
    Codec { name: String, options: Vec<(String, String)> },
    /// One that is not supported, described in words.
    Refused { what: String },
}

/// A special token that ends a generation, by key or by text (`[[fill_in_the_middle]]`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FillIn {
    pub(crate) key: String,
    /// Tried in this order if the file lacks the key.
    pub(crate) texts: Vec<String>,
}

/// The token before a part of a prompt for a text with a gap (`[[infill]]`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InfillEntry {
    pub(crate) part: InfillPart,
    /// Tried in this order.
    pub(crate) keys: Vec<String>,
    /// Tried in this order if the file lacks the keys.
    pub(crate) texts: Vec<String>,
}

/// A text that does not end a generation if the vocabulary has certain others (`[[not_end]]`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NotEnd {
    pub(crate) text: String,
    /// One text of every list ends a generation.
    pub(crate) beside: Vec<Vec<String>>,
    /// Whether it is plain text then.
    pub(crate) plain: bool,
}

/// Special tokens that also remove the white space after them (`[[strip_after]]`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StripAfter {
    /// `tokenizer.ggml.model`.
    pub(crate) model: String,
    /// Texts that the vocabulary must contain.
    pub(crate) tokens: Vec<String>,
    /// Other tokens with the same behavior.
    pub(crate) also: Vec<String>,
    /// Special tokens without this behavior.
    pub(crate) except: Vec<String>,
}

/// A byte-level vocabulary in the order of its ranks, whose file contains nothing else (`[[ranked]]`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RankedKind {
    /// Regexes in order; empty if the file has its own.
    pub(crate) regexes: Vec<String>,
    /// Special tokens in the order of their ids, after (or before) all others.
    pub(crate) specials: Vec<String>,
    /// The name of further ones, with `{}` for their number, and how many exist.
    pub(crate) numbered: Option<(String, usize)>,
    /// Added before each text.
    pub(crate) opening: Vec<String>,
    /// Whether text is normalized to NFC first.
    pub(crate) composed: bool,
}

/// The tags around a model's reasoning (`[[reasoning]]`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReasoningPair {
    /// Opening tag.
    pub(crate) open: String,
    /// Closing tag.
    pub(crate) close: String,
    /// Whether it is used for every model, not only if the chat template contains one of the two.
    pub(crate) always: bool,
}

/// Markers around text of an answer (`[[content]]`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ContentPair {
    pub(crate) tags: ContentTags,
    /// Texts of a chat template with these markers.
    pub(crate) template: Vec<String>,
}

/// How models write calls of tools (`[[call]]`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CallEntry {
    pub(crate) format: Arc<CallFormat>,
    /// Texts that a chat template with this format has.
    pub(crate) template: Vec<String>,
    /// Texts that such a template does not have.
    pub(crate) not: Vec<String>,
}

impl CallEntry {
    /// Whether a chat template has this format.
    pub(crate) fn fits(&self, template: &str) -> bool {
        self.template.iter().all(|text| template.contains(text))
            && !self.not.iter().any(|text| template.contains(text))
    }
}

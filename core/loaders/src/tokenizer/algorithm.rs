//! [`Algorithm`]: the encoding algorithm of a vocabulary.

use super::bpe::Bpe;
use super::budget::Budget;
use super::byte_letters;
use super::cheapest::Cheapest;
use super::codec::Codec;
use super::error::TokenizerError;
use super::json::StagedAlgorithm;
use super::longest::{Longest, unescape};
use super::special::{Special, Trust};
use super::spm::{SPACE, Spm};
use super::unigram::Unigram;
use super::vocabulary::Vocabulary;
use super::word_piece::WordPiece;

/// The algorithm from text to tokens.
#[derive(Debug)]
pub(crate) enum Algorithm {
    /// SentencePiece's byte pair encoding.
    Spm(Spm),
    /// Byte pair encoding by merges.
    Bpe(Bpe),
    /// BERT's WordPiece: the longest match first.
    WordPiece(WordPiece),
    /// Unigram: the best sum of scores.
    Unigram(Unigram),
    /// The longest token first.
    Longest(Longest),
    /// The smallest sum of costs.
    Cheapest(Cheapest),
    /// A registered tokenizer.
    Codec(Codec),
    /// The stages of a `tokenizer.json`, which match special tokens themselves.
    Staged(Box<StagedAlgorithm>),
}

/// The treatment of leading spaces of a decoded text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leading {
    /// They are kept.
    Kept,
    /// One is removed, because encoding added it.
    OneGone,
    /// All at the start of the first token are removed.
    AllGone,
}

/// The context before a part of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Before {
    /// Nothing, or a special token.
    Start,
    /// Other text.
    Text,
}

impl Algorithm {
    /// Appends the ids of a text without special tokens.
    ///
    /// # Errors
    /// A character that the vocabulary cannot express, or a text on which the pre-tokenizer fails.
    pub(crate) fn encode(
        &self,
        vocabulary: &Vocabulary,
        text: &str,
        before: Before,
        budget: &Budget,
        out: &mut Vec<u32>,
    ) -> Result<(), TokenizerError> {
        match self {
            Self::Bpe(bpe) => bpe.encode(vocabulary, text, budget, out),
            Self::Spm(spm) => {
                let prefix = spm.space_prefix && before == Before::Start;
                spm.encode(vocabulary, text, prefix, out)
            }
            Self::Longest(longest) => longest.encode(text, budget, out),
            Self::Codec(codec) => codec.encode(vocabulary, text, out),
            Self::WordPiece(word_piece) => word_piece.encode(text, budget, out),
            Self::Unigram(unigram) => unigram.encode(text, budget, out),
            Self::Cheapest(cheapest) => cheapest.encode(text, budget, out),
            Self::Staged(staged) => {
                staged.encode(vocabulary, text, Trust::Whole(Special::Plain), budget, out)
            }
        }
    }

    /// The treatment of leading spaces of a text, because encoding added one.
    pub(crate) fn leading(&self) -> Leading {
        let added = match self {
            Self::Spm(spm) => spm.space_prefix,
            Self::Unigram(unigram) => unigram.space_prefix,
            Self::WordPiece(_) => true,
            Self::Bpe(_) | Self::Longest(_) | Self::Cheapest(_) | Self::Codec(_) => false,
            Self::Staged(staged) => return staged.leading(),
        };
        if added { Leading::OneGone } else { Leading::Kept }
    }

    /// The bytes of an ordinary token; for a codec by id instead.
    pub(crate) fn bytes(&self, text: &str) -> Vec<u8> {
        match self {
            Self::Bpe(bpe) if !bpe.spells_text() => {
                let bytes: Option<Vec<u8>> = text.chars().map(byte_letters::byte).collect();
                bytes.unwrap_or_else(|| text.as_bytes().to_vec())
            }
            Self::Staged(staged) => staged.bytes(text),
            Self::Longest(_) => unescape(text),
            Self::Cheapest(_) | Self::Codec(_) => text.as_bytes().to_vec(),
            Self::Bpe(_) | Self::Spm(_) | Self::Unigram(_) | Self::WordPiece(_) => {
                text.replace(SPACE, " ").into_bytes()
            }
        }
    }
}

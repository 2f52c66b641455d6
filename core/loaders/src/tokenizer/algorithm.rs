//! [`Algorithm`]: the way of cutting that a vocabulary was made for.

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

/// How text becomes tokens.
#[derive(Debug)]
pub(crate) enum Algorithm {
    /// SentencePiece's byte pair encoding.
    Spm(Spm),
    /// Byte pair encoding by merges.
    Bpe(Bpe),
    /// Words covered by the longest tokens.
    WordPiece(WordPiece),
    /// The best sum of scores.
    Unigram(Unigram),
    /// The longest token first.
    Longest(Longest),
    /// The smallest sum of costs.
    Cheapest(Cheapest),
    /// That of a registered tokenizer.
    Codec(Codec),
    /// The stages of a `tokenizer.json`, which find special tokens themselves.
    Staged(Box<StagedAlgorithm>),
}

/// What happens to spaces at the start of a decoded text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leading {
    /// They are kept.
    Kept,
    /// One is left out: the text had none.
    OneGone,
    /// All that the first token begins with are left out.
    AllGone,
}

/// What stands before a part of a text.
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
    /// A character that the vocabulary cannot express, a text on which the pre-tokenizer gives up.
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

    /// What happens to spaces that a text begins with, because encoding put one there.
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

    /// The bytes that an ordinary token's text stands for; a codec is asked by id instead.
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

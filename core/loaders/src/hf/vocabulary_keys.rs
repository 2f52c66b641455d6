//! The vocabulary of a `tokenizer.model` as GGUF keys (conversion/base.py of llama.cpp,
//! `_create_vocab_sentencepiece`).

use gguf_file::{OwnedArray, OwnedValue};

use super::sentence_piece::{SentencePiece, SentencePieceAlgorithm};
use crate::tables::{self, TokenizerTables};
use crate::tokenizer::TokenKind;
use crate::tokenizer::json::file::AddedToken;
use crate::tokenizer::keys;

/// The score of an added token.
const ADDED: f32 = -1000.0;
/// The score of an unused id.
const NOTHING: f32 = -10_000.0;

/// Tokens by id, as columns.
#[derive(Debug, Default)]
pub(super) struct TokenColumns {
    pub(super) texts: Vec<String>,
    pub(super) scores: Vec<f32>,
    pub(super) kinds: Vec<TokenKind>,
}

impl TokenColumns {
    /// The pieces, overridden by the added tokens; at least `size` ids, those without a token unused.
    ///
    /// # Errors
    /// An added token with an id far past the others.
    pub(super) fn new(model: &SentencePiece, added: &[AddedToken], size: usize) -> Result<Self, String> {
        let mut lists = Self::default();
        for piece in &model.pieces {
            lists.push(piece.text.clone(), piece.score, piece.kind);
        }
        let most = size.max(lists.texts.len()) + added.len();
        for token in added {
            let id = usize::try_from(token.id).ok().filter(|id| *id < most);
            let id =
                id.ok_or_else(|| format!("the added token {:?} has the id {}", token.content, token.id))?;
            lists.fill(id + 1);
            let kind = if token.special { TokenKind::Control } else { TokenKind::UserDefined };
            // A user-defined token is matched in the original text, not in the one with U+2581.
            let text =
                if token.special { token.content.clone() } else { token.content.replace('\u{2581}', " ") };
            if let Some(place) = lists.texts.get_mut(id) {
                *place = text;
            }
            if let (Some(score), Some(place)) = (lists.scores.get_mut(id), lists.kinds.get_mut(id)) {
                *score = ADDED;
                // The unknown token of the pieces stays the fallback token.
                if *place != TokenKind::Unknown {
                    *place = kind;
                }
            }
        }
        lists.fill(size);
        Ok(lists)
    }

    fn push(&mut self, text: String, score: f32, kind: TokenKind) {
        self.texts.push(text);
        self.scores.push(score);
        self.kinds.push(kind);
    }

    /// Adds unused ids up to this number of ids.
    fn fill(&mut self, size: usize) {
        while self.texts.len() < size {
            self.push(format!("[PAD{}]", self.texts.len()), NOTHING, TokenKind::Unused);
        }
    }
}

/// The keys of a vocabulary; the error names an unsupported feature.
pub(super) fn of(
    model: &SentencePiece,
    lists: TokenColumns,
    tables: &TokenizerTables,
) -> Result<Vec<(String, OwnedValue)>, String> {
    let named = match model.algorithm {
        SentencePieceAlgorithm::Pairs => tables::Algorithm::Spm,
        SentencePieceAlgorithm::Unigram => tables::Algorithm::Unigram,
        SentencePieceAlgorithm::Words => {
            return Err("vocabularies of whole words are not supported".to_owned());
        }
        SentencePieceAlgorithm::Characters => {
            return Err("vocabularies of characters are not supported".to_owned());
        }
    };
    let name =
        tables.vocabulary_of(named).ok_or_else(|| "the tables have no name for its algorithm".to_owned())?;
    let TokenColumns { texts, scores, kinds } = lists;
    let kinds: Vec<i32> = kinds.into_iter().map(TokenKind::id).collect();
    let mut found = vec![
        (keys::MODEL, OwnedValue::String(name.to_owned())),
        (keys::PRE, OwnedValue::String("default".to_owned())),
        (keys::TOKENS, OwnedValue::Array(OwnedArray::strings(texts))),
        (keys::SCORES, OwnedValue::Array(OwnedArray::F32(scores))),
        (keys::TOKEN_TYPE, OwnedValue::Array(OwnedArray::I32(kinds))),
    ];
    for (key, id) in [
        (keys::BOS, model.bos),
        (keys::EOS, model.eos),
        (keys::UNKNOWN, model.unknown),
        (keys::PAD, model.pad),
    ] {
        if let Ok(id) = u32::try_from(id) {
            found.push((key, OwnedValue::U32(id)));
        }
    }
    // The default of a BPE vocabulary.
    let plain = model.algorithm == SentencePieceAlgorithm::Pairs && model.dummy_prefix;
    if !plain {
        found.push((keys::ADD_SPACE_PREFIX, OwnedValue::Bool(model.dummy_prefix)));
    }
    if model.remove_extra_whitespaces {
        found.push((keys::REMOVE_EXTRA_WHITESPACES, OwnedValue::Bool(true)));
    }
    if !model.characters.is_empty() {
        found.push((keys::CHARACTERS, OwnedValue::Array(OwnedArray::U8(model.characters.clone()))));
    }
    Ok(found.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
}

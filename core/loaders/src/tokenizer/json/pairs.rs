//! Byte pair encoding of a `tokenizer.json` (the tokenizers crate, `models/bpe/model.rs`).

use std::collections::HashSet;

use super::super::budget::Budget;
use super::super::error::TokenizerError;
use super::super::merges::{Merges, takes_part};
use super::super::vocabulary::Vocabulary;
use super::file::ModelTable;
use super::model::{PieceVocabulary, fallback};
use super::part::bad;

/// Characters below this have their tokens in an array.
const FEW: usize = 0x200;

/// Byte pair encoding.
#[derive(Debug)]
pub(super) struct BpeModel {
    merges: Merges,
    /// Tokens of single characters, by character.
    few: Vec<Option<u32>>,
    /// Byte tokens, if all 256 exist.
    bytes: Option<Vec<u32>>,
    unknown: Option<u32>,
    unknowns: Unknowns,
    whole: WholePieces,
    only_added: HashSet<u32>,
    affixes: Option<Affixes>,
}

/// The affixes of a piece's characters before merging.
#[derive(Debug)]
struct Affixes {
    /// Before each character but the first.
    continues: String,
    /// After the last character.
    ends: String,
}

/// The token of a run of unknown characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unknowns {
    OneEach,
    OneForAll,
}

/// Whether a piece that is a token becomes that token without merging.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WholePieces {
    First,
    ByMerges,
}

impl BpeModel {
    /// Reads the merges of a model.
    ///
    /// # Errors
    /// A merge of unknown tokens, an unknown token outside of the vocabulary, or missing byte tokens.
    pub(super) fn read(model: &ModelTable, known: PieceVocabulary<'_>) -> Result<Self, TokenizerError> {
        let affix = |text: &Option<String>| text.clone().unwrap_or_default();
        let affixes = Affixes {
            continues: affix(&model.continuing_subword_prefix),
            ends: affix(&model.end_of_word_suffix),
        };
        let unknown = match &model.unk_token {
            None => None,
            Some(text) => {
                let missing = || bad("model.unk_token", format!("the vocabulary has no token {text:?}"));
                Some(known.vocabulary.id(text).ok_or_else(missing)?)
            }
        };
        let character = |code: usize| {
            let character = u32::try_from(code).ok().and_then(char::from_u32)?;
            single(known.vocabulary, &known.only_added, character)
        };
        Ok(Self {
            merges: merges(model, &known, &affixes.continues)?,
            few: (0..FEW).map(character).collect(),
            bytes: fallback(model, known.vocabulary)?,
            unknown,
            unknowns: if model.fuse_unk == Some(true) { Unknowns::OneForAll } else { Unknowns::OneEach },
            whole: if model.ignore_merges == Some(true) { WholePieces::First } else { WholePieces::ByMerges },
            only_added: known.only_added,
            affixes: Some(affixes).filter(|it| !it.continues.is_empty() || !it.ends.is_empty()),
        })
    }

    /// Appends the tokens of a piece.
    ///
    /// # Errors
    /// A character without a token, if the model has no unknown token.
    pub(super) fn encode(
        &self,
        vocabulary: &Vocabulary,
        piece: &str,
        budget: &Budget,
        out: &mut Vec<u32>,
    ) -> Result<(), TokenizerError> {
        let whole = (self.whole == WholePieces::First)
            .then(|| text_token(vocabulary, &self.only_added, piece))
            .flatten();
        if let Some(id) = whole {
            out.push(id);
            return Ok(());
        }
        let mut spelled = PieceTokens { pairs: self, ids: Vec::with_capacity(piece.len()), waiting: None };
        let mut buffer = [0; 4];
        let mut text = String::new();
        for (at, character) in piece.char_indices() {
            match &self.affixes {
                None => spelled.push(self.single(vocabulary, character), character.encode_utf8(&mut buffer)),
                Some(affixes) => {
                    text.clear();
                    text.push_str(if at == 0 { "" } else { &affixes.continues });
                    text.push(character);
                    text.push_str(if at + character.len_utf8() == piece.len() { &affixes.ends } else { "" });
                    budget.work(text.len())?;
                    spelled.push(text_token(vocabulary, &self.only_added, &text), &text)
                }
            }
            .map_err(|NoToken| TokenizerError::NoToken {
                what: format!("the character {character:?} in {piece:?}"),
            })?;
        }
        let ids = spelled.finish();
        match ids.as_slice() {
            [one] => out.push(*one),
            ids => self.merges.apply(ids, out),
        }
        Ok(())
    }

    fn single(&self, vocabulary: &Vocabulary, character: char) -> Option<u32> {
        let few = self.few.get(u32::from(character) as usize);
        few.map_or_else(|| single(vocabulary, &self.only_added, character), |id| *id)
    }
}

/// A character has no token, and there is no unknown token.
struct NoToken;

/// A piece as tokens of single characters.
struct PieceTokens<'p> {
    pairs: &'p BpeModel,
    ids: Vec<u32>,
    /// An unknown token is added with the next known one, after the bytes of others, as in the crate.
    waiting: Option<u32>,
}

impl PieceTokens<'_> {
    /// Adds a character as its token, as the bytes of its text, or as unknown.
    fn push(&mut self, known: Option<u32>, text: &str) -> Result<(), NoToken> {
        if let Some(id) = known {
            self.ids.extend(self.waiting.take());
            self.ids.push(id);
            return Ok(());
        }
        if let Some(bytes) = &self.pairs.bytes {
            self.ids.extend(text.bytes().filter_map(|byte| bytes.get(usize::from(byte))));
            return Ok(());
        }
        let unknown = self.pairs.unknown.ok_or(NoToken)?;
        if self.pairs.unknowns == Unknowns::OneEach {
            self.ids.extend(self.waiting.take());
        }
        self.waiting = Some(unknown);
        Ok(())
    }

    fn finish(mut self) -> Vec<u32> {
        self.ids.extend(self.waiting);
        self.ids
    }
}

/// The merges; `continues` is the prefix of the second part of each, and is not part of the result.
fn merges(
    model: &ModelTable,
    known: &PieceVocabulary<'_>,
    continues: &str,
) -> Result<Merges, TokenizerError> {
    let list = model.merges.as_ref().ok_or_else(|| bad("model", "it has no `merges`"))?;
    let mut merges = Vec::new();
    let mut joined = String::new();
    for (rank, (left, right)) in list.iter().enumerate() {
        let place = || format!("model.merges[{rank}]");
        let token = |text: &str| {
            let lacks = || bad(place(), format!("the vocabulary lacks its token {text:?}"));
            known.id(text).ok_or_else(lacks)
        };
        let rest = right.strip_prefix(continues).ok_or_else(|| {
            bad(place(), format!("{right:?} continues a word, but does not begin with {continues:?}"))
        })?;
        joined.clear();
        joined.push_str(left);
        joined.push_str(rest);
        let merge = (token(left)?, token(right)?, token(&joined)?);
        // As in GGUF files: text cannot become a control token.
        let [left, right, id] = [merge.0, merge.1, merge.2].map(|id| takes_part(known.vocabulary.kind(id)));
        if left && right && id {
            merges.push(merge);
        }
    }
    Ok(Merges::of(merges.into_iter()))
}

/// The token of a character, if plain text may become it.
fn single(vocabulary: &Vocabulary, only_added: &HashSet<u32>, character: char) -> Option<u32> {
    text_token(vocabulary, only_added, character.encode_utf8(&mut [0; 4]))
}

fn text_token(vocabulary: &Vocabulary, only_added: &HashSet<u32>, text: &str) -> Option<u32> {
    vocabulary.id(text).filter(|id| takes_part(vocabulary.kind(*id)) && !only_added.contains(id))
}

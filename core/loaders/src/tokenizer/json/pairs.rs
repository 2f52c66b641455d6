//! Byte pair encoding of a `tokenizer.json` (the tokenizers crate, `models/bpe/model.rs`).

use std::collections::HashSet;

use super::super::budget::Budget;
use super::super::error::TokenizerError;
use super::super::merges::{Merges, takes_part};
use super::super::vocabulary::Vocabulary;
use super::file::ModelTable;
use super::model::{PieceVocabulary, fallback};
use super::part::bad;

/// Characters below this have their tokens in a table.
const FEW: usize = 0x200;

/// Byte pair encoding.
#[derive(Debug)]
pub(super) struct BpeModel {
    merges: Merges,
    /// Tokens of single characters, by character.
    few: Vec<Option<u32>>,
    /// Tokens of bytes, where all 256 are there.
    bytes: Option<Vec<u32>>,
    unknown: Option<u32>,
    unknowns: Unknowns,
    whole: WholePieces,
    only_added: HashSet<u32>,
    affixes: Option<Affixes>,
}

/// What the characters of a piece are spelled with before they are merged.
#[derive(Debug)]
struct Affixes {
    /// Before each but the first.
    continues: String,
    /// Behind the last.
    ends: String,
}

/// What a run of unknown characters is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unknowns {
    OneEach,
    OneForAll,
}

/// Whether a piece that is a token is that token, whatever the merges say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WholePieces {
    First,
    ByMerges,
}

impl BpeModel {
    /// Reads the merges of a model.
    ///
    /// # Errors
    /// A merge of unknown tokens, an unknown token that is none, too few tokens of bytes.
    pub(super) fn read(model: &ModelTable, known: PieceVocabulary<'_>) -> Result<Self, TokenizerError> {
        let affix = |text: &Option<String>| text.clone().unwrap_or_default();
        let affixes = Affixes {
            continues: affix(&model.continuing_subword_prefix),
            ends: affix(&model.end_of_word_suffix),
        };
        let unknown = match &model.unk_token {
            None => None,
            Some(text) => {
                let missing = || bad("model.unk_token", format!("{text:?} is no token of the vocabulary"));
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
    /// A character without a token, where there is none for unknown ones.
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

/// No token for a character, and none for unknown ones.
struct NoToken;

/// A piece in tokens of single characters.
struct PieceTokens<'p> {
    pairs: &'p BpeModel,
    ids: Vec<u32>,
    /// An unknown token waits until the next known one, past the bytes of others: so it is in the crate.
    waiting: Option<u32>,
}

impl PieceTokens<'_> {
    /// Adds a character by its token, or by the bytes of its text, or as unknown.
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

/// The merges; `continues` stands before the second part of each and is not in what they join to.
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
            let lacks = || bad(place(), format!("it needs the token {text:?}, which the vocabulary lacks"));
            known.id(text).ok_or_else(lacks)
        };
        let rest = right.strip_prefix(continues).ok_or_else(|| {
            bad(place(), format!("{right:?} goes on with a word and does not begin with {continues:?}"))
        })?;
        joined.clear();
        joined.push_str(left);
        joined.push_str(rest);
        let merge = (token(left)?, token(right)?, token(&joined)?);
        // As in files of GGUF: no text can become a token that steers the model.
        let [left, right, id] = [merge.0, merge.1, merge.2].map(|id| takes_part(known.vocabulary.kind(id)));
        if left && right && id {
            merges.push(merge);
        }
    }
    Ok(Merges::of(merges.into_iter()))
}

/// The token of a character that text may become.
fn single(vocabulary: &Vocabulary, only_added: &HashSet<u32>, character: char) -> Option<u32> {
    text_token(vocabulary, only_added, character.encode_utf8(&mut [0; 4]))
}

fn text_token(vocabulary: &Vocabulary, only_added: &HashSet<u32>, text: &str) -> Option<u32> {
    vocabulary.id(text).filter(|id| takes_part(vocabulary.kind(*id)) && !only_added.contains(id))
}

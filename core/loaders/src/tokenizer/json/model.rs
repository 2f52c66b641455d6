//! The models that turn a piece into tokens (the tokenizers crate, `models/`).

use std::collections::HashSet;
use std::ops::Range;

use super::super::budget::Budget;
use super::super::error::TokenizerError;
use super::super::merges::takes_part;
use super::super::prefixes::Prefixes;
use super::super::unigram::BestCut;
use super::super::vocabulary::Vocabulary;
use super::file::ModelTable;
use super::pairs::BpeModel;
use super::part::{bad, refused};

/// The prefix of WordPiece tokens that continue a word.
const CONTINUES: &str = "##";
/// The maximum number of characters of a word for WordPiece.
const LONGEST_WORD: u64 = 100;

/// The model of a file.
#[derive(Debug)]
pub(super) enum PieceModel {
    Bpe(Box<BpeModel>),
    Unigram {
        cut: BestCut,
        bytes: Option<Vec<u32>>,
    },
    WordPiece(WordPieceModel),
    /// Pieces that are tokens, and one token for all others.
    WordLevel {
        unknown: Option<u32>,
        only_added: HashSet<u32>,
    },
}

/// WordPiece.
#[derive(Debug)]
pub(super) struct WordPieceModel {
    begin: Prefixes,
    go_on: Prefixes,
    unknown: u32,
    longest: usize,
}

/// The possible tokens of a piece: those of the model's own list, without control tokens.
pub(super) struct PieceVocabulary<'v> {
    pub(super) vocabulary: &'v Vocabulary,
    pub(super) only_added: HashSet<u32>,
}

impl PieceVocabulary<'_> {
    /// The token of a text.
    pub(super) fn id(&self, text: &str) -> Option<u32> {
        self.vocabulary.id(text).filter(|id| !self.only_added.contains(id))
    }
}

/// The kind of a model; old files have no `type`.
pub(crate) fn kind(model: &ModelTable) -> Result<&str, TokenizerError> {
    match &model.kind {
        Some(kind) => Ok(kind),
        None if model.merges.is_some() => Ok("BPE"),
        None if !model.vocab.scores.is_empty() => Ok("Unigram"),
        None if model.max_input_chars_per_word.is_some() => Ok("WordPiece"),
        None => Err(bad("model", "it has no `type`")),
    }
}

impl PieceModel {
    /// Builds the `model` of a file.
    ///
    /// # Errors
    /// An unsupported model, or a merge of unknown tokens.
    pub(super) fn read(model: &ModelTable, vocabulary: &Vocabulary) -> Result<Self, TokenizerError> {
        let own: HashSet<u64> = model.vocab.ids.iter().copied().collect();
        let added = vocabulary.iter().map(|(id, _, _)| id).filter(|id| !own.contains(&u64::from(*id)));
        let known = PieceVocabulary { vocabulary, only_added: added.collect() };
        if model.dropout.is_some_and(|dropout| dropout != 0.0) {
            return Err(refused("model.dropout", "is set"));
        }
        match kind(model)? {
            "BPE" => Ok(Self::Bpe(Box::new(BpeModel::read(model, known)?))),
            "Unigram" => best(model, vocabulary),
            "WordPiece" => words(model, &known),
            "WordLevel" => {
                let unknown = model.unk_token.as_deref().unwrap_or("<unk>");
                Ok(Self::WordLevel { unknown: known.id(unknown), only_added: known.only_added })
            }
            other => Err(refused("model", format!("is a `{other}`"))),
        }
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
        match self {
            Self::Bpe(pairs) => pairs.encode(vocabulary, piece, budget, out)?,
            Self::Unigram { cut, bytes } => {
                let parts = cut.parts(piece, budget)?;
                best_of(vocabulary, (cut, bytes.as_deref()), (piece, &parts), out);
            }
            Self::WordPiece(words) => words.encode(piece, budget, out)?,
            Self::WordLevel { unknown, only_added } => {
                let known = |id: &u32| takes_part(vocabulary.kind(*id)) && !only_added.contains(id);
                let id = vocabulary.id(piece).filter(known).or(*unknown);
                out.push(id.ok_or_else(|| TokenizerError::NoToken { what: format!("{piece:?}") })?);
            }
        }
        Ok(())
    }
}

/// The tokens `<0x00>` to `<0xFF>`, if all exist.
fn byte_tokens(vocabulary: &Vocabulary) -> Option<Vec<u32>> {
    (0..=u8::MAX).map(|byte| vocabulary.id(&format!("<0x{byte:02X}>"))).collect()
}

/// With fewer than 256 byte tokens, `byte_fallback` would depend on each character.
pub(super) fn fallback(
    model: &ModelTable,
    vocabulary: &Vocabulary,
) -> Result<Option<Vec<u32>>, TokenizerError> {
    match model.byte_fallback {
        Some(true) => {
            let missing =
                || bad("model.byte_fallback", "true, but the vocabulary lacks some of `<0x00>` to `<0xFF>`");
            byte_tokens(vocabulary).ok_or_else(missing).map(Some)
        }
        _ => Ok(None),
    }
}

fn best(model: &ModelTable, vocabulary: &Vocabulary) -> Result<PieceModel, TokenizerError> {
    let scores = &model.vocab.scores;
    if scores.is_empty() {
        return Err(bad("model.vocab", "expected a list of tokens with scores"));
    }
    let unknown = model.unk_id.and_then(|id| u32::try_from(id).ok());
    let unknown = unknown.filter(|id| scores.len() > *id as usize).ok_or_else(|| {
        bad(
            "model.unk_id",
            "missing or outside the vocabulary: characters without a token could not be encoded",
        )
    })?;
    let worst = scores.iter().copied().fold(f64::INFINITY, f64::min);
    let listed = vocabulary.iter().filter(|(id, _, kind)| (*id as usize) < scores.len() && takes_part(*kind));
    let cut = BestCut::new(listed.map(|(id, text, _)| (id, text)), scores.clone(), unknown, worst);
    Ok(PieceModel::Unigram { cut, bytes: fallback(model, vocabulary)? })
}

/// A run of unknown characters is the token of that text, or else one unknown token, or its bytes.
fn best_of(
    vocabulary: &Vocabulary,
    (cut, bytes): (&BestCut, Option<&[u32]>),
    (piece, parts): (&str, &[(u32, Range<usize>)]),
    out: &mut Vec<u32>,
) {
    let unknown = |id: u32| id == cut.unknown;
    for run in parts.chunk_by(|one, next| unknown(one.0) && unknown(next.0)) {
        let (Some(first), Some(last)) = (run.first(), run.last()) else {
            continue;
        };
        if !unknown(first.0) {
            out.push(first.0);
            continue;
        }
        let text = piece.get(first.1.start..last.1.end).unwrap_or_default();
        let whole = vocabulary.id(text).filter(|id| cut.has(*id) && takes_part(vocabulary.kind(*id)));
        match (whole, bytes) {
            (Some(id), _) => out.push(id),
            (None, Some(bytes)) => {
                out.extend(text.bytes().filter_map(|byte| bytes.get(usize::from(byte))));
            }
            (None, None) => out.push(cut.unknown),
        }
    }
}

fn words(model: &ModelTable, known: &PieceVocabulary<'_>) -> Result<PieceModel, TokenizerError> {
    let prefix = model.continuing_subword_prefix.as_deref().unwrap_or(CONTINUES);
    let unknown = model.unk_token.as_deref().unwrap_or("[UNK]");
    let unknown = known
        .vocabulary
        .id(unknown)
        .ok_or_else(|| bad("model.unk_token", format!("the vocabulary has no token {unknown:?}")))?;
    let texts = || {
        let own = |id: u32| !known.only_added.contains(&id);
        let listed = known.vocabulary.iter().filter(move |(id, _, kind)| takes_part(*kind) && own(*id));
        listed.map(|(id, text, _)| (id, text))
    };
    let longest = model.max_input_chars_per_word.unwrap_or(LONGEST_WORD);
    Ok(PieceModel::WordPiece(WordPieceModel {
        begin: Prefixes::new(texts()),
        go_on: Prefixes::new(texts().filter_map(|(id, text)| Some((id, text.strip_prefix(prefix)?)))),
        unknown,
        longest: usize::try_from(longest).unwrap_or(usize::MAX),
    }))
}

impl WordPieceModel {
    fn encode(&self, word: &str, budget: &Budget, out: &mut Vec<u32>) -> Result<(), TokenizerError> {
        let start = out.len();
        if word.chars().count() > self.longest || !self.cover(word.as_bytes(), budget, out)? {
            out.truncate(start);
            out.push(self.unknown);
        }
        Ok(())
    }

    /// Whether tokens cover the word.
    fn cover(&self, word: &[u8], budget: &Budget, out: &mut Vec<u32>) -> Result<bool, TokenizerError> {
        let mut rest = word;
        while !rest.is_empty() {
            let tokens = if rest.len() == word.len() { &self.begin } else { &self.go_on };
            let Some((length, id)) = tokens.longest(rest, budget)? else {
                return Ok(false);
            };
            out.push(id);
            rest = rest.get(length..).unwrap_or_default();
        }
        Ok(true)
    }
}

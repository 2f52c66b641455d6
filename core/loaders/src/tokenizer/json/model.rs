//! How a piece becomes tokens (the tokenizers crate, `models/`).

use std::collections::HashSet;

use super::super::error::TokenizerError;
use super::super::merges::{Merges, takes_part};
use super::super::prefixes::Prefixes;
use super::super::unigram::BestCut;
use super::super::vocabulary::Vocabulary;
use super::file::Model;
use super::part::{bad, refused};

/// Characters below this have their tokens in a table.
const FEW: usize = 0x200;
/// What WordPiece puts before what continues a word.
const CONTINUES: &str = "##";
/// How many characters a word of WordPiece may have.
const LONGEST_WORD: u64 = 100;

/// The way of a file.
#[derive(Debug)]
pub(super) enum Pieced {
    Pairs(Box<Pairs>),
    Best { cut: BestCut, bytes: Option<Vec<u32>> },
    Words(Words),
}

/// Byte pair encoding.
#[derive(Debug)]
pub(super) struct Pairs {
    merges: Merges,
    /// Tokens of single characters, by character.
    few: Vec<Option<u32>>,
    /// Tokens of bytes, where all 256 are there.
    bytes: Option<Vec<u32>>,
    unknown: Option<u32>,
    unknowns: Unknowns,
    whole: Whole,
    only_added: HashSet<u32>,
}

/// What a run of unknown characters is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unknowns {
    OneEach,
    OneForAll,
}

/// Whether a piece that is a token is that token, whatever the merges say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whole {
    First,
    ByMerges,
}

/// WordPiece.
#[derive(Debug)]
pub(super) struct Words {
    begin: Prefixes,
    go_on: Prefixes,
    unknown: u32,
    longest: usize,
}

/// The tokens that a piece may become: those of the model's own list that do not steer it.
struct Known<'v> {
    vocabulary: &'v Vocabulary,
    only_added: HashSet<u32>,
}

impl Known<'_> {
    fn id(&self, text: &str) -> Option<u32> {
        self.vocabulary.id(text).filter(|id| !self.only_added.contains(id))
    }
}

/// The kind of a model; files of old have no `type`.
pub(crate) fn kind(model: &Model) -> Result<&str, TokenizerError> {
    match &model.kind {
        Some(kind) => Ok(kind),
        None if model.merges.is_some() => Ok("BPE"),
        None if !model.vocab.scores.is_empty() => Ok("Unigram"),
        None if model.max_input_chars_per_word.is_some() => Ok("WordPiece"),
        None => Err(bad("model", "it has no `type`")),
    }
}

impl Pieced {
    /// Builds what the `model` of a file says.
    ///
    /// # Errors
    /// A model that is not done, a merge of unknown tokens.
    pub(super) fn read(model: &Model, vocabulary: &Vocabulary) -> Result<Self, TokenizerError> {
        let own: HashSet<u64> = model.vocab.ids.iter().copied().collect();
        let added = vocabulary.iter().map(|(id, _, _)| id).filter(|id| !own.contains(&u64::from(*id)));
        let known = Known { vocabulary, only_added: added.collect() };
        let fields = [
            ("dropout", model.dropout.is_some_and(|dropout| dropout != 0.0)),
            ("end_of_word_suffix", model.end_of_word_suffix.as_deref().is_some_and(|text| !text.is_empty())),
        ];
        if let Some((field, _)) = fields.iter().find(|(_, set)| *set) {
            return Err(refused(format!("model.{field}"), "is set"));
        }
        match kind(model)? {
            "BPE" => pairs(model, known),
            "Unigram" => best(model, vocabulary),
            "WordPiece" => words(model, &known),
            other => Err(refused("model", format!("is a `{other}`"))),
        }
    }

    /// Appends the tokens of a piece.
    ///
    /// # Errors
    /// A character without a token, where there is none for unknown ones.
    pub(super) fn encode(
        &self,
        vocabulary: &Vocabulary,
        piece: &str,
        out: &mut Vec<u32>,
    ) -> Result<(), TokenizerError> {
        match self {
            Self::Pairs(pairs) => pairs.encode(vocabulary, piece, out)?,
            Self::Best { cut, bytes } => best_of(vocabulary, (cut, bytes.as_deref()), piece, out),
            Self::Words(words) => words.encode(piece, out),
        }
        Ok(())
    }
}

/// The tokens `<0x00>` to `<0xFF>`, if all are there.
fn byte_tokens(vocabulary: &Vocabulary) -> Option<Vec<u32>> {
    (0..=u8::MAX).map(|byte| vocabulary.id(&format!("<0x{byte:02X}>"))).collect()
}

/// `byte_fallback` with fewer than 256 tokens of bytes would depend on each character.
fn fallback(model: &Model, vocabulary: &Vocabulary) -> Result<Option<Vec<u32>>, TokenizerError> {
    match model.byte_fallback {
        Some(true) => {
            let missing =
                || bad("model.byte_fallback", "true, but not all of `<0x00>` to `<0xFF>` are tokens");
            byte_tokens(vocabulary).ok_or_else(missing).map(Some)
        }
        _ => Ok(None),
    }
}

fn pairs(model: &Model, known: Known<'_>) -> Result<Pieced, TokenizerError> {
    let prefixed = model.continuing_subword_prefix.as_deref().is_some_and(|text| !text.is_empty());
    if prefixed {
        return Err(refused("model.continuing_subword_prefix", "is set"));
    }
    let list = model.merges.as_ref().ok_or_else(|| bad("model", "it has no `merges`"))?;
    let mut merges = Vec::new();
    let mut joined = String::new();
    for (rank, (left, right)) in list.iter().enumerate() {
        let token = |text: &str| {
            let lacks = || {
                bad(
                    format!("model.merges[{rank}]"),
                    format!("it needs the token {text:?}, which the vocabulary lacks"),
                )
            };
            known.id(text).ok_or_else(lacks)
        };
        joined.clear();
        joined.push_str(left);
        joined.push_str(right);
        let merge = (token(left)?, token(right)?, token(&joined)?);
        // As in files of GGUF: no text can become a token that steers the model.
        let [left, right, id] = [merge.0, merge.1, merge.2].map(|id| takes_part(known.vocabulary.kind(id)));
        if left && right && id {
            merges.push(merge);
        }
    }
    let unknown = match &model.unk_token {
        None => None,
        Some(text) => Some(
            known
                .vocabulary
                .id(text)
                .ok_or_else(|| bad("model.unk_token", format!("{text:?} is no token of the vocabulary")))?,
        ),
    };
    let character = |code: usize| {
        let character = u32::try_from(code).ok().and_then(char::from_u32)?;
        single(known.vocabulary, &known.only_added, character)
    };
    Ok(Pieced::Pairs(Box::new(Pairs {
        merges: Merges::of(merges.into_iter()),
        few: (0..FEW).map(character).collect(),
        bytes: fallback(model, known.vocabulary)?,
        unknown,
        unknowns: if model.fuse_unk == Some(true) { Unknowns::OneForAll } else { Unknowns::OneEach },
        whole: if model.ignore_merges == Some(true) { Whole::First } else { Whole::ByMerges },
        only_added: known.only_added,
    })))
}

/// The token of a character that text may become.
fn single(vocabulary: &Vocabulary, only_added: &HashSet<u32>, character: char) -> Option<u32> {
    text_token(vocabulary, only_added, character.encode_utf8(&mut [0; 4]))
}

fn text_token(vocabulary: &Vocabulary, only_added: &HashSet<u32>, text: &str) -> Option<u32> {
    vocabulary.id(text).filter(|id| takes_part(vocabulary.kind(*id)) && !only_added.contains(id))
}

impl Pairs {
    fn encode(&self, vocabulary: &Vocabulary, piece: &str, out: &mut Vec<u32>) -> Result<(), TokenizerError> {
        let whole =
            (self.whole == Whole::First).then(|| text_token(vocabulary, &self.only_added, piece)).flatten();
        if let Some(id) = whole {
            out.push(id);
            return Ok(());
        }
        let mut ids = Vec::with_capacity(piece.len());
        // An unknown token waits until the next known one, past the bytes of others: so it is in the crate.
        let mut waiting = None;
        for character in piece.chars() {
            let few = self.few.get(u32::from(character) as usize);
            let known = few.map_or_else(|| single(vocabulary, &self.only_added, character), |id| *id);
            if let Some(id) = known {
                ids.extend(waiting.take());
                ids.push(id);
                continue;
            }
            if let Some(bytes) = &self.bytes {
                let mut buffer = [0; 4];
                let text = character.encode_utf8(&mut buffer);
                ids.extend(text.bytes().filter_map(|byte| bytes.get(usize::from(byte))));
                continue;
            }
            let unknown = self.unknown.ok_or_else(|| TokenizerError::NoToken {
                what: format!("the character {character:?} in {piece:?}"),
            })?;
            if self.unknowns == Unknowns::OneEach {
                ids.extend(waiting.take());
            }
            waiting = Some(unknown);
        }
        ids.extend(waiting);
        match ids.as_slice() {
            [one] => out.push(*one),
            ids => self.merges.apply(ids, out),
        }
        Ok(())
    }
}

fn best(model: &Model, vocabulary: &Vocabulary) -> Result<Pieced, TokenizerError> {
    let scores = &model.vocab.scores;
    if scores.is_empty() {
        return Err(bad("model.vocab", "a list of tokens with scores was expected"));
    }
    let unknown = model.unk_id.and_then(|id| u32::try_from(id).ok());
    let unknown = unknown.filter(|id| scores.len() > *id as usize).ok_or_else(|| {
        bad("model.unk_id", "missing or past the vocabulary: a character without a token has none then")
    })?;
    let worst = scores.iter().copied().fold(f64::INFINITY, f64::min);
    let listed = vocabulary.iter().filter(|(id, _, kind)| (*id as usize) < scores.len() && takes_part(*kind));
    let cut = BestCut::new(listed.map(|(id, text, _)| (id, text)), scores.clone(), unknown, worst);
    Ok(Pieced::Best { cut, bytes: fallback(model, vocabulary)? })
}

/// A run of unknown characters is the token of that text, else one unknown token, or its bytes.
fn best_of(
    vocabulary: &Vocabulary,
    (cut, bytes): (&BestCut, Option<&[u32]>),
    piece: &str,
    out: &mut Vec<u32>,
) {
    let unknown = |id: u32| id == cut.unknown;
    for run in cut.parts(piece).chunk_by(|one, next| unknown(one.0) && unknown(next.0)) {
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

fn words(model: &Model, known: &Known<'_>) -> Result<Pieced, TokenizerError> {
    let prefix = model.continuing_subword_prefix.as_deref().unwrap_or(CONTINUES);
    let unknown = model.unk_token.as_deref().unwrap_or("[UNK]");
    let unknown = known
        .vocabulary
        .id(unknown)
        .ok_or_else(|| bad("model.unk_token", format!("{unknown:?} is no token of the vocabulary")))?;
    let texts = || {
        let own = |id: u32| !known.only_added.contains(&id);
        let listed = known.vocabulary.iter().filter(move |(id, _, kind)| takes_part(*kind) && own(*id));
        listed.map(|(id, text, _)| (id, text))
    };
    let longest = model.max_input_chars_per_word.unwrap_or(LONGEST_WORD);
    Ok(Pieced::Words(Words {
        begin: Prefixes::new(texts()),
        go_on: Prefixes::new(texts().filter_map(|(id, text)| Some((id, text.strip_prefix(prefix)?)))),
        unknown,
        longest: usize::try_from(longest).unwrap_or(usize::MAX),
    }))
}

impl Words {
    fn encode(&self, word: &str, out: &mut Vec<u32>) {
        let start = out.len();
        if word.chars().count() > self.longest || !self.cover(word.as_bytes(), out) {
            out.truncate(start);
            out.push(self.unknown);
        }
    }

    /// Whether tokens cover the word.
    fn cover(&self, word: &[u8], out: &mut Vec<u32>) -> bool {
        let mut rest = word;
        while !rest.is_empty() {
            let tokens = if rest.len() == word.len() { &self.begin } else { &self.go_on };
            let Some((length, id)) = tokens.longest(rest) else {
                return false;
            };
            out.push(id);
            rest = rest.get(length..).unwrap_or_default();
        }
        true
    }
}

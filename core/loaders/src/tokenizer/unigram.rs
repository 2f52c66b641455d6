//! SentencePiece's unigram model: the segmentation of a text with the best sum of scores (Kudo, 2018).
//!
//! sentencepiece/unigram_model.cc and normalizer.cc; llama-vocab.cpp, `llm_tokenizer_ugm_session`.

use std::ops::Range;
use std::string::FromUtf8Error;

use super::budget::Budget;
use super::character_map::CharacterMap;
use super::error::TokenizerError;
use super::keys;
use super::kind::TokenKind;
use super::prefixes::Prefixes;
use super::spm::SPACE;
use super::vocabulary::Vocabulary;

/// The distance of an unknown character's score below that of the worst token.
const PENALTY: f64 = 10.0;

/// The spaces of a text that are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spaces {
    /// All.
    Kept,
    /// One of each run, and none at the start and the end.
    Merged,
}

/// Data for encoding besides the vocabulary.
#[derive(Debug)]
pub(crate) struct Unigram {
    cut: BestCut,
    characters: Option<CharacterMap>,
    spaces: Spaces,
    /// Whether a text gets a leading space.
    pub(crate) space_prefix: bool,
}

/// Tokens with their scores, and the unknown token.
#[derive(Debug)]
pub(crate) struct BestCut {
    tokens: Prefixes,
    /// By id.
    scores: Vec<f64>,
    pub(crate) unknown: u32,
    unknown_score: f64,
}

/// The normalization of a text before segmentation.
#[derive(Debug)]
pub(crate) struct UnigramNormalization {
    pub(crate) characters: Option<CharacterMap>,
    pub(crate) spaces: Spaces,
    pub(crate) space_prefix: bool,
}

/// The best path to a byte.
#[derive(Debug, Clone, Copy)]
struct BestPath {
    score: f64,
    from: usize,
    id: u32,
}

impl Unigram {
    /// Uses the ordinary tokens; user-defined ones are matched earlier.
    pub(crate) fn new(vocabulary: &Vocabulary, unknown: u32, normalization: UnigramNormalization) -> Self {
        let UnigramNormalization { characters, spaces, space_prefix } = normalization;
        let normal = || vocabulary.iter().filter(|(_, _, kind)| *kind == TokenKind::Normal);
        let worst = normal().map(|(id, _, _)| vocabulary.score(id)).fold(f32::MAX, f32::min);
        Self {
            cut: BestCut {
                tokens: Prefixes::new(normal().map(|(id, text, _)| (id, text))),
                scores: vocabulary.iter().map(|(id, _, _)| f64::from(vocabulary.score(id))).collect(),
                unknown,
                unknown_score: f64::from(worst) - PENALTY,
            },
            characters,
            spaces,
            space_prefix,
        }
    }

    /// Appends the ids of a text without special tokens; a run of unknown characters is one unknown token.
    ///
    /// # Errors
    /// The budget is exhausted.
    pub(crate) fn encode(
        &self,
        text: &str,
        budget: &Budget,
        out: &mut Vec<u32>,
    ) -> Result<(), TokenizerError> {
        let text = self.normalized(text, budget)?;
        let parts = self.cut.parts(&text, budget)?;
        let again = |at: usize, id: u32| {
            id == self.cut.unknown && at > 0 && parts.get(at - 1).is_some_and(|before| before.0 == id)
        };
        out.extend(parts.iter().enumerate().filter(|(at, part)| !again(*at, part.0)).map(|(_, part)| part.0));
        Ok(())
    }

    /// Replaces characters, merges spaces, writes them as U+2581 and adds one at the start; empty if nothing is left.
    fn normalized(&self, text: &str, budget: &Budget) -> Result<String, TokenizerError> {
        let replaced = self.replaced(text, budget)?;
        let words = match self.spaces {
            Spaces::Kept => replaced.replace(' ', SPACE),
            Spaces::Merged => {
                replaced.split(' ').filter(|word| !word.is_empty()).collect::<Vec<_>>().join(SPACE)
            }
        };
        Ok(if self.space_prefix && !words.is_empty() { format!("{SPACE}{words}") } else { words })
    }

    fn replaced(&self, text: &str, budget: &Budget) -> Result<String, TokenizerError> {
        let Some(characters) = &self.characters else {
            return Ok(text.to_owned());
        };
        let mut bytes = Vec::with_capacity(text.len());
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            // A damaged table could end inside a character.
            let found = characters.replacement(rest.as_bytes(), budget)?;
            let found = found.filter(|(length, _)| rest.is_char_boundary(*length));
            let length = found.map_or(first.len_utf8(), |(length, _)| length);
            let (own, after) = rest.split_at(length);
            let by = found.map_or(own.as_bytes(), |(_, text)| text);
            budget.grow(keys::CHARACTERS, by.len().saturating_sub(length))?;
            bytes.extend_from_slice(by);
            rest = after;
        }
        let lossy = |error: FromUtf8Error| String::from_utf8_lossy(error.as_bytes()).into_owned();
        Ok(String::from_utf8(bytes).unwrap_or_else(lossy))
    }
}

impl BestCut {
    /// Tokens and their scores; the worst of `scores` determines the score of an unknown character.
    pub(crate) fn new<'t>(
        tokens: impl Iterator<Item = (u32, &'t str)>,
        scores: Vec<f64>,
        unknown: u32,
        worst: f64,
    ) -> Self {
        Self { tokens: Prefixes::new(tokens), scores, unknown, unknown_score: worst - PENALTY }
    }

    /// Whether a token has a score; tokens that were added later have none.
    pub(crate) fn has(&self, id: u32) -> bool {
        self.scores.len() > id as usize
    }

    /// The tokens of a text and their byte ranges, in order; `unknown` for each character without one.
    ///
    /// # Errors
    /// The budget is exhausted.
    pub(crate) fn parts(
        &self,
        text: &str,
        budget: &Budget,
    ) -> Result<Vec<(u32, Range<usize>)>, TokenizerError> {
        let ways = self.ways(text, budget)?;
        let mut parts = Vec::new();
        let mut at = text.len();
        while let Some(way) = ways.get(at).copied().flatten().filter(|_| at > 0) {
            parts.push((way.id, way.from..at));
            at = way.from;
        }
        parts.reverse();
        Ok(parts)
    }

    fn ways(&self, text: &str, budget: &Budget) -> Result<Vec<Option<BestPath>>, TokenizerError> {
        let mut ways: Vec<Option<BestPath>> = vec![None; text.len() + 1];
        for (from, character) in text.char_indices() {
            let before = ways.get(from).copied().flatten().map_or(0.0, |way| way.score);
            let mut better = |length: usize, id: u32, score: f64| {
                let score = before + score;
                if let Some(place) = ways.get_mut(from + length)
                    && place.is_none_or(|best| score > best.score)
                {
                    *place = Some(BestPath { score, from, id });
                }
            };
            let mut whole = false;
            self.tokens.of(text.as_bytes().get(from..).unwrap_or_default(), budget, |length, id| {
                whole |= length == character.len_utf8();
                better(length, id, self.scores.get(id as usize).copied().unwrap_or_default());
            })?;
            if !whole {
                better(character.len_utf8(), self.unknown, self.unknown_score);
            }
        }
        Ok(ways)
    }
}

//! [`Cut`]: a pattern and how a text is split by its matches (the tokenizers crate, `NormalizedString::split`).

use std::ops::Range;

use super::super::budget::Budget;
use super::super::char_class::CharClass;
use super::super::error::TokenizerError;
use super::super::finder::RegexFinder;
use super::super::splitter::Splitter;
use super::scripts;

/// What happens to the matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Behavior {
    Isolated,
    Removed,
    MergedWithPrevious,
    MergedWithNext,
    Contiguous,
}

impl Behavior {
    /// The behavior with this name in a file.
    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "Isolated" => Self::Isolated,
            "Removed" => Self::Removed,
            "MergedWithPrevious" => Self::MergedWithPrevious,
            "MergedWithNext" => Self::MergedWithNext,
            "Contiguous" => Self::Contiguous,
            _ => return None,
        })
    }
}

/// Characters that are each a match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Characters {
    White,
    Punctuation,
    Numeric,
    One(char),
}

impl Characters {
    fn has(self, character: char) -> bool {
        match self {
            Self::White => character.is_whitespace(),
            Self::Punctuation => character.is_ascii_punctuation() || CharClass::Punctuation.has(character),
            Self::Numeric => character.is_numeric(),
            Self::One(one) => one == character,
        }
    }
}

/// The pattern that is matched.
#[derive(Debug)]
pub(super) enum SplitPattern {
    /// Isolated matches of each regex in turn.
    Isolated(Splitter),
    Regex(RegexFinder),
    Text(String),
    Characters(Characters),
    /// Borders between scripts.
    Scripts,
    /// This many characters each.
    Lengths(usize),
}

/// Whether the matches are kept, or the text between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MatchPart {
    Found,
    Between,
}

/// A split of every piece.
#[derive(Debug)]
pub(super) struct Cut {
    pub(super) sought: SplitPattern,
    pub(super) behavior: Behavior,
    pub(super) counts: MatchPart,
}

impl Cut {
    /// A split that matches single characters.
    pub(super) fn of(characters: Characters, behavior: Behavior) -> Self {
        Self { sought: SplitPattern::Characters(characters), behavior, counts: MatchPart::Found }
    }

    /// The parts of a piece that are kept.
    ///
    /// # Errors
    /// A regex failed.
    pub(super) fn ranges(&self, piece: &str, budget: &Budget) -> Result<Vec<Range<usize>>, TokenizerError> {
        let found: Vec<Range<usize>> = match &self.sought {
            SplitPattern::Isolated(splitter) => {
                let mut end = 0;
                let range = |part: &str| {
                    end += part.len();
                    end - part.len()..end
                };
                return Ok(splitter.split(piece, budget)?.into_iter().map(range).collect());
            }
            SplitPattern::Scripts => return Ok(scripts::ranges(piece)),
            SplitPattern::Lengths(length) => return Ok(lengths(piece, *length)),
            SplitPattern::Regex(finder) => finder.all(piece, budget)?,
            SplitPattern::Text(text) => {
                piece.match_indices(text.as_str()).map(|(at, text)| at..at + text.len()).collect()
            }
            SplitPattern::Characters(characters) => {
                let found = piece.char_indices().filter(|(_, character)| characters.has(*character));
                found.map(|(at, character)| at..at + character.len_utf8()).collect()
            }
        };
        Ok(self.behavior.apply(covered(&found, piece.len(), self.counts)))
    }
}

/// Parts of this many characters; the last may have fewer.
fn lengths(piece: &str, length: usize) -> Vec<Range<usize>> {
    let starts: Vec<usize> = piece.char_indices().map(|(at, _)| at).step_by(length.max(1)).collect();
    let ends = starts.iter().skip(1).copied().chain([piece.len()]);
    starts.iter().copied().zip(ends).map(|(start, end)| start..end).collect()
}

/// The matches and the text between them, in order, and which of them are matches.
fn covered(found: &[Range<usize>], length: usize, counts: MatchPart) -> Vec<(Range<usize>, bool)> {
    let mut parts = Vec::with_capacity(2 * found.len() + 1);
    let mut done = 0;
    for range in found {
        if done != range.start {
            parts.push((done..range.start, counts == MatchPart::Between));
        }
        parts.push((range.clone(), counts == MatchPart::Found));
        done = range.end;
    }
    if done != length {
        parts.push((done..length, counts == MatchPart::Between));
    }
    parts
}

impl Behavior {
    fn apply(self, parts: Vec<(Range<usize>, bool)>) -> Vec<Range<usize>> {
        match self {
            Self::Isolated => parts.into_iter().map(|(range, _)| range).collect(),
            Self::Removed => parts.into_iter().filter(|part| !part.1).map(|(range, _)| range).collect(),
            Self::Contiguous => joined(
                parts.into_iter(),
                |counts, before| counts == before,
                |last, range| last.end = range.end,
            ),
            Self::MergedWithPrevious => joined(
                parts.into_iter(),
                |counts, before| counts && !before,
                |last, range| last.end = range.end,
            ),
            Self::MergedWithNext => {
                let mut ranges = joined(
                    parts.into_iter().rev(),
                    |counts, before| counts && !before,
                    |last, range| last.start = range.start,
                );
                ranges.reverse();
                ranges
            }
        }
    }
}

/// The parts, each joined to the previous one as the behavior requires.
fn joined(
    parts: impl Iterator<Item = (Range<usize>, bool)>,
    joins: impl Fn(bool, bool) -> bool,
    join: impl Fn(&mut Range<usize>, &Range<usize>),
) -> Vec<Range<usize>> {
    let mut ranges: Vec<Range<usize>> = Vec::new();
    let mut before = false;
    for (range, counts) in parts {
        match ranges.last_mut().filter(|_| joins(counts, before)) {
            Some(last) => join(last, &range),
            None => ranges.push(range),
        }
        before = counts;
    }
    ranges
}

//! [`PromptLookup`]: guesses from what the prompt and the answer have said before.

use super::{DraftRequest, DraftSource, DraftToken, Drafter};
use crate::error::GenerateError;
use std::collections::HashMap;

/// The fewest tokens at the end of the text that must have occurred before.
const SHORTEST: usize = 3;

/// The most of them that are compared.
const LONGEST: usize = 16;

/// The most earlier occurrences that are compared, newest first.
const COMPARED: usize = 64;

/// Guesses that the text goes on as it did after the longest earlier occurrence of its last tokens (3 to 16 of them). This
/// is often right where an answer repeats its prompt: when it edits, summarizes, quotes or extracts.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct PromptLookup;

impl DraftSource for PromptLookup {
    fn start(&self, _: &DraftRequest) -> Result<Box<dyn Drafter>, GenerateError> {
        Ok(Box::new(OccurrenceIndex::default()))
    }
}

/// The places where each group of three tokens occurred. A new token costs one look-up, however long the text is.
#[derive(Debug, Default)]
pub(super) struct OccurrenceIndex {
    /// By group: where its newest occurrence ends.
    newest: HashMap<[u32; SHORTEST], usize>,
    /// By position: where the previous occurrence of the group that ends there ended.
    previous: Vec<Option<usize>>,
}

impl OccurrenceIndex {
    /// Adds the tokens that are new since the last call.
    pub(super) fn extend(&mut self, tokens: &[u32]) {
        for end in self.previous.len()..tokens.len() {
            let group = group(tokens, end);
            self.previous.push(group.and_then(|group| self.newest.insert(group, end)));
        }
    }

    /// The longest earlier occurrence of the end of the text: where it ends, and its length.
    fn longest(&self, tokens: &[u32]) -> Option<(usize, usize)> {
        let mut place = *self.previous.last()?;
        let mut found: Option<(usize, usize)> = None;
        for _ in 0..COMPARED {
            let Some(end) = place else { break };
            let length = common_end(tokens, &tokens[..=end]);
            if found.is_none_or(|(_, longest)| length > longest) {
                found = Some((end, length));
            }
            if length == LONGEST {
                break;
            }
            place = self.previous.get(end).copied().flatten();
        }
        found
    }

    /// The longest occurrence of the end of `text` in the indexed tokens `known`, as [`Self::longest`]; of equally long
    /// ones the first that ends at `from` or later, or else the last.
    pub(super) fn longest_in(&self, known: &[u32], text: &[u32], from: usize) -> Option<(usize, usize)> {
        let mut place = self.newest.get(&group(text, text.len().checked_sub(1)?)?).copied();
        let mut found: Option<(usize, usize)> = None;
        for _ in 0..COMPARED {
            let Some(end) = place else { break };
            let length = common_end(text, &known[..=end]);
            if found.is_none_or(|(_, longest)| length > longest || (length == longest && end >= from)) {
                found = Some((end, length));
            }
            place = self.previous.get(end).copied().flatten();
        }
        found
    }
}

/// How many of the last tokens of two texts are the same, at most [`LONGEST`].
fn common_end(one: &[u32], other: &[u32]) -> usize {
    let pairs = one.iter().rev().zip(other.iter().rev());
    pairs.take(LONGEST).take_while(|(one, other)| one == other).count()
}

impl Drafter for OccurrenceIndex {
    fn draft(&mut self, tokens: &[u32], most: usize) -> Vec<DraftToken> {
        self.extend(tokens);
        let Some((end, length)) = self.longest(tokens) else { return Vec::new() };
        let following = &tokens[end + 1..];
        // If the occurrence reaches the end of the text, the text repeats itself from there on.
        let repeated = following.iter().cycle().take(most).enumerate();
        repeated.map(|(index, &id)| DraftToken { id, grade: grade(length + index) }).collect()
    }
}

/// The three tokens up to a position.
fn group(tokens: &[u32], end: usize) -> Option<[u32; SHORTEST]> {
    tokens.get((end + 1).checked_sub(SHORTEST)?..=end)?.try_into().ok()
}

/// The grade of a guess after `length` tokens that occurred before.
pub(super) fn grade(length: usize) -> u8 {
    match length {
        0..=3 => 0,
        4 => 1,
        5 | 6 => 2,
        7 | 8 => 3,
        9..=12 => 4,
        13..=15 => 5,
        _ => 6,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use menagerie_random::SplitMix64;

    fn ids(draft: Vec<DraftToken>) -> Vec<u32> {
        draft.into_iter().map(|token| token.id).collect()
    }

    fn lookup(tokens: &[u32], most: usize) -> Vec<u32> {
        ids(PromptLookup.start(&DraftRequest::default()).unwrap().draft(tokens, most))
    }

    #[test]
    fn the_longest_earlier_occurrence_is_continued() {
        assert_eq!(lookup(&[1, 2, 3, 4, 5, 9, 1, 2, 3], 2), [4, 5]);
        assert_eq!(lookup(&[1, 2, 3, 4, 5, 9, 1, 2, 3], 5), [4, 5, 9, 1, 2]);
        // The last three occurred twice: the older occurrence has one token more in common.
        assert_eq!(lookup(&[7, 1, 2, 3, 4, 8, 1, 2, 3, 5, 7, 1, 2, 3], 1), [4]);
        // Of equally long ones, the newest.
        assert_eq!(lookup(&[6, 1, 2, 3, 4, 8, 1, 2, 3, 5, 7, 1, 2, 3], 1), [5]);
        for nothing in [&[][..], &[1], &[1, 1], &[1, 2, 3], &[1, 2, 9, 1, 2], &[1, 2, 3, 4]] {
            assert_eq!(lookup(nothing, 8), [0; 0], "{nothing:?}");
        }
    }

    #[test]
    fn a_text_that_repeats_itself_goes_on_repeating() {
        assert_eq!(lookup(&[5; 4], 6), [5; 6]);
        assert_eq!(lookup(&[9, 1, 2, 1, 2, 1], 5), [2, 1, 2, 1, 2]);
    }

    /// The tokens after the longest of the earlier occurrences, from all of them.
    fn plain(tokens: &[u32], most: usize) -> Vec<u32> {
        let length_at = |end: usize| {
            let pairs = tokens.iter().rev().zip(tokens[..=end].iter().rev());
            pairs.take(LONGEST).take_while(|(one, other)| one == other).count()
        };
        let ends = 0..tokens.len().saturating_sub(1);
        let best = ends.map(|end| (length_at(end), end)).max().filter(|(length, _)| *length >= SHORTEST);
        let Some((_, end)) = best else { return Vec::new() };
        let mut text = tokens.to_vec();
        for index in 0..most {
            text.push(text[end + 1 + index]);
        }
        text.split_off(tokens.len())
    }

    #[test]
    fn the_index_finds_what_a_search_of_the_whole_text_finds() {
        let mut random = SplitMix64::new(5);
        for symbols in [2, 3, 6] {
            let mut text: Vec<u32> = (0..20).map(|_| random.below(symbols) as u32).collect();
            let mut index = OccurrenceIndex::default();
            for _ in 0..300 {
                let most = random.below(9);
                let found = ids(index.draft(&text, most));
                // With few symbols there are more occurrences than are compared.
                if symbols > 2 || text.len() < COMPARED {
                    assert_eq!(found, plain(&text, most), "{text:?}");
                }
                text.extend((0..1 + random.below(3)).map(|_| random.below(symbols) as u32));
            }
        }
    }
}

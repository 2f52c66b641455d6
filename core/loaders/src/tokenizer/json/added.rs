//! Tokens that are matched in a text before it is split (the tokenizers crate, `tokenizer/added_vocabulary.rs`).

use std::collections::HashMap;
use std::ops::Range;

use super::super::budget::Budget;
use super::super::error::TokenizerError;
use super::super::prefixes::Prefixes;
use super::super::special;
use super::super::splitter::is_word;
use super::super::vocabulary::Vocabulary;
use super::file::AddedToken;
use super::normalizer::Normalizer;

/// Tokens that are matched in one form of the text: original or normalized.
#[derive(Debug, Default)]
pub(super) struct AddedSet {
    texts: Prefixes,
    manners: HashMap<u32, Manner>,
}

/// The properties of an added token.
#[derive(Debug, Clone, Copy)]
struct Manner {
    /// Whether only trusted text can contain it.
    guarded: bool,
    single_word: bool,
    lstrip: bool,
    rstrip: bool,
}

/// A part of a text: a token, or text without any.
pub(super) type Found = (Option<u32>, Range<usize>);

impl AddedSet {
    /// The tokens that are matched in the original text, and those matched in the normalized one.
    ///
    /// # Errors
    /// A regex of the normalizer failed, or the normalizer expands the tokens too much.
    pub(super) fn both(
        tokens: &[AddedToken],
        vocabulary: &Vocabulary,
        normalizer: &Normalizer,
    ) -> Result<[Self; 2], TokenizerError> {
        let given = tokens.iter().map(|token| token.content.len()).sum();
        let budget = Budget::for_bytes(given);
        let set = |normalized: bool| -> Result<Self, TokenizerError> {
            let mut texts = Vec::new();
            let mut manners = HashMap::new();
            for token in tokens.iter().filter(|token| token.normalized == normalized) {
                let Some(id) = vocabulary.id(&token.content) else {
                    continue;
                };
                let text = if normalized {
                    normalizer.apply(&token.content, &budget)?
                } else {
                    token.content.as_str().into()
                };
                texts.push((id, text.into_owned()));
                manners.insert(
                    id,
                    Manner {
                        guarded: special::is_guarded(vocabulary, id),
                        single_word: token.single_word,
                        lstrip: token.lstrip,
                        rstrip: token.rstrip,
                    },
                );
            }
            Ok(Self { texts: Prefixes::new(texts.into_iter()), manners })
        };
        Ok([set(false)?, set(true)?])
    }

    /// Whether there are no tokens.
    pub(super) fn is_empty(&self) -> bool {
        self.manners.is_empty()
    }

    /// Whether some are matched only in trusted text.
    pub(super) fn has_guarded(&self) -> bool {
        self.manners.values().any(|manner| manner.guarded)
    }

    /// Splits a text at its tokens: the leftmost first, at one place the longest. A token that is not allowed at its
    /// place is plain text.
    ///
    /// # Errors
    /// The budget is exhausted.
    pub(super) fn cut(
        &self,
        text: &str,
        budget: &Budget,
        trusted: impl Fn(&Range<usize>) -> bool,
    ) -> Result<Vec<Found>, TokenizerError> {
        let mut parts = Vec::new();
        let mut white = White { text, last: 0..0 };
        let mut done = 0;
        let mut at = 0;
        while at < text.len() && !self.is_empty() {
            let rest = text.as_bytes().get(at..).unwrap_or_default();
            let Some((length, id)) = self.texts.longest(rest, budget)? else {
                at += 1;
                continue;
            };
            let found = at..at + length;
            at = found.end;
            let manner = self.manners.get(&id).filter(|manner| !manner.guarded || trusted(&found));
            let Some(manner) = manner.filter(|manner| !manner.single_word || alone(text, &found)) else {
                continue;
            };
            let (mut start, mut end) = (found.start, found.end);
            if manner.lstrip {
                // Text before `done` was processed: to look further back for each token would take quadratic time.
                let before = text.get(done..start).unwrap_or_default();
                start = done + before.trim_end().len();
            }
            if manner.rstrip {
                end = white.end_after(end);
            }
            if done < start {
                parts.push((None, done..start));
            }
            parts.push((Some(id), start..end));
            done = end;
        }
        if done < text.len() {
            parts.push((None, done..text.len()));
        }
        Ok(parts)
    }
}

/// White space of a text, with the last run that was found.
struct White<'t> {
    text: &'t str,
    last: Range<usize>,
}

impl White<'_> {
    /// The end of the white space that begins at a place.
    fn end_after(&mut self, at: usize) -> usize {
        if !self.last.contains(&at) {
            let rest = self.text.get(at..).unwrap_or_default();
            self.last = at..at + rest.len() - rest.trim_start().len();
        }
        self.last.end.max(at)
    }
}

/// Whether there is no letter on either side of a place.
fn alone(text: &str, place: &Range<usize>) -> bool {
    let before = text.get(..place.start).and_then(|before| before.chars().next_back());
    let after = text.get(place.end..).and_then(|after| after.chars().next());
    !before.is_some_and(is_word) && !after.is_some_and(is_word)
}

//! Special tokens in text: where they are, and whether they are recognized.

use std::collections::{BTreeSet, HashSet};
use std::ops::Range;

use super::budget::Budget;
use super::error::TokenizerError;
use super::kind::TokenKind;
use super::vocabulary::Vocabulary;
use crate::tables::StripAfter;

/// Whether special tokens written in a text are recognized.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Special {
    /// Recognized: a template's own text.
    Parse,
    /// Plain text: anything from outside.
    Plain,
}

/// The bytes of a text that may be special tokens.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Trust<'a> {
    /// All of them, or none.
    Whole(Special),
    /// Those in one of these ranges, sorted and not touching.
    Ranges(&'a [Range<usize>]),
}

impl Trust<'_> {
    /// Whether a position of the text is trusted.
    pub(crate) fn covers(self, range: &Range<usize>) -> bool {
        match self {
            Self::Whole(special) => special == Special::Parse,
            Self::Ranges(ranges) => {
                let after = ranges.partition_point(|trusted| trusted.end < range.end);
                ranges.get(after).is_some_and(|trusted| trusted.start <= range.start)
            }
        }
    }
}

/// A part of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fragment<'t> {
    /// Text without recognized special tokens.
    Text(&'t str),
    /// A special token.
    Token(u32),
}

/// The tokens that are matched before anything else.
#[derive(Debug)]
pub(crate) struct SpecialTokens {
    /// The possible lengths by first byte, longest first.
    lengths: Vec<Vec<usize>>,
    /// Tokens that also remove the white space after them.
    strip_after: HashSet<u32>,
}

impl SpecialTokens {
    /// Collects control, unknown and user-defined tokens. `strip_after`: see [`strips_after`].
    pub(crate) fn new(vocabulary: &Vocabulary, strip_after: HashSet<u32>) -> Self {
        let mut lengths = vec![BTreeSet::new(); 256];
        for (_, text, _) in vocabulary.iter().filter(|token| is_special(token.2)) {
            if let Some(set) = text.bytes().next().and_then(|first| lengths.get_mut(usize::from(first))) {
                set.insert(text.len());
            }
        }
        Self {
            lengths: lengths.into_iter().map(|set| set.into_iter().rev().collect()).collect(),
            strip_after,
        }
    }

    /// Splits a text at its special tokens: the leftmost first, at one place the longest. User-defined tokens are
    /// matched in any text, unless they look like control tokens.
    ///
    /// # Errors
    /// The budget is exhausted.
    pub(crate) fn partition<'t>(
        &self,
        vocabulary: &Vocabulary,
        text: &'t str,
        trust: Trust<'_>,
        budget: &Budget,
    ) -> Result<Vec<Fragment<'t>>, TokenizerError> {
        let mut fragments = Vec::new();
        let mut done = 0;
        let mut at = 0;
        while let Some(first) = text.as_bytes().get(at) {
            let lengths = self.lengths.get(usize::from(*first)).map(Vec::as_slice).unwrap_or_default();
            let mut looked_at = 0;
            let found = lengths.iter().find_map(|length| {
                looked_at += length;
                let id = vocabulary.id(text.get(at..at + length)?)?;
                self.means(vocabulary, id, at..at + length, trust).then_some((id, at + length))
            });
            budget.work(looked_at)?;
            let Some((id, end)) = found else {
                at += 1;
                continue;
            };
            if let Some(before) = text.get(done..at).filter(|before| !before.is_empty()) {
                fragments.push(Fragment::Text(before));
            }
            fragments.push(Fragment::Token(id));
            done = if self.strip_after.contains(&id) { after_white(text, end) } else { end };
            at = done;
        }
        if let Some(rest) = text.get(done..).filter(|rest| !rest.is_empty()) {
            fragments.push(Fragment::Text(rest));
        }
        Ok(fragments)
    }

    fn means(&self, vocabulary: &Vocabulary, id: u32, range: Range<usize>, trust: Trust<'_>) -> bool {
        match vocabulary.kind(id) {
            kind if !is_special(kind) => false,
            _ if trust.covers(&range) => true,
            _ => !is_guarded(vocabulary, id),
        }
    }
}

/// The end of the white space that begins at `at`. It is measured only where it is stripped: measuring it after every
/// token of a long run of white-space tokens would take quadratic time.
fn after_white(text: &str, at: usize) -> usize {
    let rest = text.get(at..).unwrap_or_default();
    at + rest.bytes().take_while(|byte| byte.is_ascii_whitespace() || *byte == 0x0B).count()
}

fn is_special(kind: TokenKind) -> bool {
    matches!(kind, TokenKind::Control | TokenKind::Unknown | TokenKind::UserDefined)
}

/// Whether a token is never made from untrusted text: control and unknown tokens, and user-defined ones that look
/// like control tokens (`<|channel|>` of gpt-oss).
pub(crate) fn is_guarded(vocabulary: &Vocabulary, id: u32) -> bool {
    match vocabulary.kind(id) {
        TokenKind::Control | TokenKind::Unknown => true,
        TokenKind::UserDefined => vocabulary.text(id).is_some_and(looks_like_control),
        TokenKind::Normal | TokenKind::Unused | TokenKind::Byte => false,
    }
}

fn looks_like_control(text: &str) -> bool {
    [("<|", "|>"), ("<｜", "｜>")].iter().any(|(open, close)| text.starts_with(open) && text.ends_with(close))
}

/// The tokens that also remove the white space after them, by the rules of the tables that match the vocabulary.
pub(crate) fn strips_after(vocabulary: &Vocabulary, model: &str, rules: &[StripAfter]) -> HashSet<u32> {
    let fits = |rule: &&StripAfter| {
        rule.model == model && rule.tokens.iter().all(|text| vocabulary.id(text).is_some())
    };
    let mut ids = HashSet::new();
    for rule in rules.iter().filter(fits) {
        let named = |list: &[String], text: &str| list.iter().any(|one| one == text);
        let strips =
            |text: &str, kind| named(&rule.also, text) || (is_special(kind) && !named(&rule.except, text));
        ids.extend(vocabulary.iter().filter(|(_, text, kind)| strips(text, *kind)).map(|(id, _, _)| id));
    }
    ids
}

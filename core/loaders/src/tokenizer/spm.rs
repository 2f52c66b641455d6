//! SentencePiece's BPE: joins the adjacent pair whose text has the best score, until no pair is a token.
//!
//! Scores decide, not ranked pairs: a text can be the join of several pairs (runs of spaces) with equal scores, which
//! a list of merges cannot express. Therefore this does not use the tokenizers crate; the sources are
//! sentencepiece/bpe_model.cc and llama-vocab.cpp, `llm_tokenizer_spm_session`.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use super::error::TokenizerError;
use super::kind::TokenKind;
use super::vocabulary::Vocabulary;

/// U+2581, the replacement of a space.
pub(crate) const SPACE: &str = "\u{2581}";

/// Data for encoding besides the vocabulary.
#[derive(Debug)]
pub(crate) struct Spm {
    bytes: Vec<Option<u32>>,
    longest: usize,
    unknown: Option<u32>,
    /// Whether text at the start, and after a special token, gets a leading space.
    pub(crate) space_prefix: bool,
}

impl Spm {
    /// Looks up the byte tokens (`<0xNN>`, else the character itself).
    pub(crate) fn new(vocabulary: &Vocabulary, unknown: Option<u32>, space_prefix: bool) -> Self {
        let byte_token = |byte: u8| {
            let named = vocabulary.id(&format!("<0x{byte:02X}>"));
            named.or_else(|| byte.is_ascii().then(|| vocabulary.id(&char::from(byte).to_string())).flatten())
        };
        Self {
            bytes: (0..=u8::MAX).map(byte_token).collect(),
            longest: vocabulary.iter().map(|(_, text, _)| text.len()).max().unwrap_or_default(),
            unknown,
            space_prefix,
        }
    }

    /// Appends the ids of a text without special tokens; `prefix` adds a leading space. The error is a character
    /// without a token and byte tokens, if the vocabulary has no unknown token.
    pub(crate) fn encode(
        &self,
        vocabulary: &Vocabulary,
        text: &str,
        prefix: bool,
        out: &mut Vec<u32>,
    ) -> Result<(), TokenizerError> {
        let mut escaped = String::with_capacity(text.len() + text.len() / 2 + SPACE.len());
        if prefix {
            escaped.push_str(SPACE);
        }
        for (at, part) in text.split(' ').enumerate() {
            if at > 0 {
                escaped.push_str(SPACE);
            }
            escaped.push_str(part);
        }
        let joined = SymbolMerger {
            spm: self,
            vocabulary,
            text: &escaped,
            parts: Vec::new(),
            queue: BinaryHeap::new(),
        }
        .run();
        for part in joined {
            let piece = escaped.get(part.start..part.end).unwrap_or_default();
            match piece_id(vocabulary, piece) {
                Some(id) => out.push(id),
                None => self.fall_back(piece, out)?,
            }
        }
        Ok(())
    }

    /// A character without a token, as bytes or as the unknown token.
    fn fall_back(&self, piece: &str, out: &mut Vec<u32>) -> Result<(), TokenizerError> {
        let bytes = piece.bytes().map(|byte| self.bytes.get(usize::from(byte)).copied().flatten());
        match bytes.collect::<Option<Vec<u32>>>() {
            Some(ids) => out.extend(ids),
            None => out.push(
                self.unknown
                    .ok_or_else(|| TokenizerError::NoToken { what: format!("the character {piece:?}") })?,
            ),
        }
        Ok(())
    }
}

/// The id of a piece if plain text may become it: not a control token, a byte or an unused id.
fn piece_id(vocabulary: &Vocabulary, piece: &str) -> Option<u32> {
    let id = vocabulary.id(piece)?;
    matches!(vocabulary.kind(id), TokenKind::Normal | TokenKind::UserDefined).then_some(id)
}

const NONE: usize = usize::MAX;

/// A part of the text; empty after it was joined to its left neighbor.
#[derive(Debug, Clone, Copy)]
struct Symbol {
    start: usize,
    end: usize,
    previous: usize,
    next: usize,
}

/// Two neighbors whose joined text is a token.
#[derive(Debug, Clone, Copy)]
struct SymbolPair {
    score: f32,
    left: usize,
    right: usize,
    bytes: usize,
}

impl Ord for SymbolPair {
    /// The best score first, then the leftmost.
    fn cmp(&self, other: &Self) -> Ordering {
        self.score.total_cmp(&other.score).then_with(|| other.left.cmp(&self.left))
    }
}

impl PartialOrd for SymbolPair {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for SymbolPair {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for SymbolPair {}

struct SymbolMerger<'a> {
    spm: &'a Spm,
    vocabulary: &'a Vocabulary,
    text: &'a str,
    parts: Vec<Symbol>,
    queue: BinaryHeap<SymbolPair>,
}

impl SymbolMerger<'_> {
    fn run(mut self) -> Vec<Symbol> {
        let count = self.text.chars().count();
        self.parts = (self.text.char_indices().enumerate())
            .map(|(at, (start, character))| Symbol {
                start,
                end: start + character.len_utf8(),
                previous: at.checked_sub(1).unwrap_or(NONE),
                next: if at + 1 < count { at + 1 } else { NONE },
            })
            .collect();
        for right in 1..count {
            self.consider(right - 1, right);
        }
        while let Some(pair) = self.queue.pop() {
            self.join(pair);
        }
        self.parts.retain(|part| part.end > part.start);
        self.parts
    }

    /// Queues two neighbors if their joined text is a token.
    fn consider(&mut self, left: usize, right: usize) {
        let (Some(first), Some(second)) = (self.parts.get(left), self.parts.get(right)) else {
            return;
        };
        let bytes = second.end - first.start;
        if bytes > self.spm.longest {
            return;
        }
        let joined = self.text.get(first.start..second.end).unwrap_or_default();
        if let Some(id) = piece_id(self.vocabulary, joined) {
            self.queue.push(SymbolPair { score: self.vocabulary.score(id), left, right, bytes });
        }
    }

    /// Joins a pair, unless one of the two changed after it was queued.
    fn join(&mut self, pair: SymbolPair) {
        let (Some(&left), Some(&right)) = (self.parts.get(pair.left), self.parts.get(pair.right)) else {
            return;
        };
        let empty = left.start == left.end || right.start == right.end;
        if empty || left.next != pair.right || right.end - left.start != pair.bytes {
            return;
        }
        if let Some(part) = self.parts.get_mut(pair.left) {
            (part.end, part.next) = (right.end, right.next);
        }
        if let Some(part) = self.parts.get_mut(pair.right) {
            part.end = part.start;
        }
        if let Some(part) = self.parts.get_mut(right.next) {
            part.previous = pair.left;
        }
        self.consider(left.previous, pair.left);
        self.consider(pair.left, right.next);
    }
}

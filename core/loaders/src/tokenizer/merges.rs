//! The merges of a BPE vocabulary, and their application to a piece.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use gguf_file::Metadata;

use super::error::TokenizerError;
use super::keys;
use super::kind::TokenKind;
use super::vocabulary::Vocabulary;

/// The result and the rank of merging two adjacent tokens, by their ids.
#[derive(Debug)]
pub(crate) struct Merges {
    by_pair: HashMap<u64, MergeRule>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct MergeRule {
    rank: u32,
    id: u32,
}

/// A token of the piece; its id is `NONE` after it was merged into its left neighbor.
#[derive(Debug, Clone, Copy)]
struct MergeSymbol {
    id: u32,
    previous: u32,
    next: u32,
}

const NONE: u32 = u32::MAX;

impl Merges {
    /// Reads `tokenizer.ggml.merges`. Merges with control tokens are skipped, so that no text can become one.
    ///
    /// # Errors
    /// A merge without two parts, or one whose parts or result are not tokens.
    pub(crate) fn read(metadata: &Metadata, vocabulary: &Vocabulary) -> Result<Self, TokenizerError> {
        let list = keys::strings(metadata, keys::MERGES)?.ok_or(TokenizerError::MissingKey {
            key: keys::MERGES,
            advice: "a BPE vocabulary cannot be used without merges; convert the model again",
        })?;
        let mut by_pair = HashMap::with_capacity(list.len());
        let mut joined = String::new();
        for (rank, merge) in (0u32..).zip(list.strings().into_iter().flatten()) {
            let bad = |problem: String| TokenizerError::BadKey {
                key: keys::MERGES.to_owned(),
                problem: format!("merge {rank}, {merge:?}, {problem}"),
            };
            let (left, right) = parts(merge)
                .ok_or_else(|| bad("does not consist of two parts with a space between them".into()))?;
            let token = |text: &str| {
                vocabulary
                    .id(text)
                    .ok_or_else(|| bad(format!("uses the token {text:?}, which the vocabulary lacks")))
            };
            joined.clear();
            joined.push_str(left);
            joined.push_str(right);
            let (left, right, id) = (token(left)?, token(right)?, token(&joined)?);
            if [left, right, id].iter().all(|id| takes_part(vocabulary.kind(*id))) {
                by_pair.entry(pair(left, right)).or_insert(MergeRule { rank, id });
            }
        }
        Ok(Self { by_pair })
    }

    /// Merges by the ids of left, right and result, in order; for a duplicate pair the later one wins (the tokenizers
    /// crate, `BpeBuilder::build`).
    pub(crate) fn of(merges: impl Iterator<Item = (u32, u32, u32)>) -> Self {
        let ranked = (0u32..).zip(merges);
        Self {
            by_pair: ranked
                .map(|(rank, (left, right, id))| (pair(left, right), MergeRule { rank, id }))
                .collect(),
        }
    }

    /// Merges the tokens of a piece, the lowest rank first, ties from the left, and appends the result.
    pub(crate) fn apply(&self, ids: &[u32], out: &mut Vec<u32>) {
        let mut symbols: Vec<MergeSymbol> = (0u32..)
            .zip(ids)
            .map(|(at, id)| MergeSymbol {
                id: *id,
                previous: at.checked_sub(1).unwrap_or(NONE),
                next: at + 1,
            })
            .collect();
        if let Some(last) = symbols.last_mut() {
            last.next = NONE;
        }
        let mut queue = BinaryHeap::with_capacity(symbols.len());
        for left in 0..u32::try_from(symbols.len()).unwrap_or(NONE) {
            self.consider(&symbols, left, &mut queue);
        }
        while let Some(Reverse((rank, left))) = queue.pop() {
            self.merge(&mut symbols, rank, left, &mut queue);
        }
        out.extend(symbols.iter().map(|symbol| symbol.id).filter(|id| *id != NONE));
    }

    /// Queues a symbol and its right neighbor if they merge.
    fn consider(&self, symbols: &[MergeSymbol], left: u32, queue: &mut Queue) {
        if let Some((merge, _)) = self.find(symbols, left) {
            queue.push(Reverse((merge.rank, left)));
        }
    }

    /// The merge of a symbol with its right neighbor, and the neighbor.
    fn find(&self, symbols: &[MergeSymbol], left: u32) -> Option<(MergeRule, u32)> {
        let first = symbols.get(left as usize).filter(|symbol| symbol.id != NONE)?;
        let second = symbols.get(first.next as usize)?;
        Some((*self.by_pair.get(&pair(first.id, second.id))?, first.next))
    }

    /// Merges a symbol with its right neighbor, unless one of them changed after they were queued.
    fn merge(&self, symbols: &mut [MergeSymbol], rank: u32, left: u32, queue: &mut Queue) {
        let Some((merge, right)) = self.find(symbols, left).filter(|(merge, _)| merge.rank == rank) else {
            return;
        };
        let next = symbols.get(right as usize).map_or(NONE, |symbol| symbol.next);
        if let Some(symbol) = symbols.get_mut(right as usize) {
            symbol.id = NONE;
        }
        if let Some(symbol) = symbols.get_mut(next as usize) {
            symbol.previous = left;
        }
        let mut previous = NONE;
        if let Some(symbol) = symbols.get_mut(left as usize) {
            (symbol.id, symbol.next) = (merge.id, next);
            previous = symbol.previous;
        }
        self.consider(symbols, previous, queue);
        self.consider(symbols, left, queue);
    }
}

/// Rank and left symbol, the lowest first.
type Queue = BinaryHeap<Reverse<(u32, u32)>>;

fn pair(left: u32, right: u32) -> u64 {
    u64::from(left) << 32 | u64::from(right)
}

/// The two parts of a merge; the left one may begin with a space (llama-vocab.cpp).
fn parts(merge: &str) -> Option<(&str, &str)> {
    let first = merge.chars().next()?.len_utf8();
    let space = merge.get(first..)?.find(' ')? + first;
    Some((merge.get(..space)?, merge.get(space + 1..)?))
}

/// Whether plain text may become a token of this kind.
pub(crate) fn takes_part(kind: TokenKind) -> bool {
    !matches!(kind, TokenKind::Control | TokenKind::Unknown)
}

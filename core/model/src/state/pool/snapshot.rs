//! [`Snapshot`]: a point to which a sequence can return.

use super::sequence::Mark;
use crate::state::BlockCopy;

/// A point to which a sequence, or a fork of it, can return: its length and copies of its per-sequence states.
///
/// Rows of per-token states are not copied: they stay in place as long as nothing below the snapshot is truncated and
/// no window has dropped them, which [`super::StatePool::restore`] checks. [`super::StatePool::retain`] keeps the pages
/// that windows show.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub(super) mark: u64,
    pub(super) len: usize,
    /// By set and per-sequence state, in the order of the ids.
    pub(super) values: Vec<BlockCopy>,
}

impl Snapshot {
    /// Whether this is its mark in a sequence.
    pub(super) fn is_of(&self, mark: &Mark) -> bool {
        (mark.tokens, mark.id) == (self.len, self.mark)
    }

    /// Tokens at the time of the snapshot.
    pub fn tokens(&self) -> usize {
        self.len
    }

    /// Bytes of the copies.
    pub fn bytes(&self) -> usize {
        self.values.iter().map(BlockCopy::bytes).sum()
    }
}

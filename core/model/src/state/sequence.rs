//! [`Sequence`]: length, pages and state blocks of one sequence.

use super::SequenceId;

/// What a store keeps for one sequence.
pub(super) struct Sequence {
    /// Tokens whose rows are complete in every state.
    pub(super) len: usize,
    /// Page table of the token rows; `[0]` in a contiguous store.
    pub(super) pages: Vec<u32>,
    /// By state id.
    pub(super) blocks: Vec<Block>,
    /// New length of every truncation so far: says whether rows below a snapshot were rewritten.
    pub(super) truncations: Vec<usize>,
}

/// Where a state of one sequence lies.
#[derive(Clone)]
pub(super) enum Block {
    /// Token rows of a contiguous store.
    Rows(Vec<u8>),
    /// Token rows in the arena of a paged store.
    Paged,
    /// A block of f32.
    Values(Vec<f32>),
}

/// A point a sequence can go back to: its length and copies of its per-sequence states.
///
/// Rows of per-token states are not copied: they stay where they are as long as nothing below the snapshot is
/// truncated, which [`super::StateStore::restore`] checks.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub(super) sequence: SequenceId,
    pub(super) len: usize,
    pub(super) truncations: usize,
    pub(super) values: Vec<Vec<f32>>,
}

impl Snapshot {
    /// Tokens at the time of the snapshot.
    pub fn tokens(&self) -> usize {
        self.len
    }
}

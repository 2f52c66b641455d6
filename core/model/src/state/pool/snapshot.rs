//! [`Snapshot`]: a point to which a sequence can return.

use super::StatePool;
use super::sequence::Mark;
use crate::Result;
use crate::state::{BlockCopy, SequenceId};

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

impl StatePool {
    /// Copies of the per-sequence states of a sequence: by set, in the order of the ids. Unlike a [`Self::snapshot`] they
    /// belong to no length, so the caller has to put them back at the length at which they were taken.
    ///
    /// # Errors
    /// [`crate::ModelError::State`] if there is no such sequence; errors of the backend.
    pub fn keep_blocks(&mut self, sequence: SequenceId) -> Result<Vec<BlockCopy>> {
        self.check_kept(sequence)?;
        let block = sequence.slot() as u32;
        let mut copies = Vec::new();
        for backing in &mut self.backings {
            for state in self.tables.blocks() {
                copies.push(backing.keep_block(state, block)?);
            }
        }
        Ok(copies)
    }

    /// Puts back the copies of [`Self::keep_blocks`] of the same sequence. Its length and its rows stay.
    ///
    /// # Errors
    /// [`crate::ModelError::State`] if there is no such sequence, or its memory was lost; errors of the backend.
    pub fn put_blocks(&mut self, sequence: SequenceId, copies: &[BlockCopy]) -> Result<()> {
        self.check_kept(sequence)?;
        let block = sequence.slot() as u32;
        let mut copies = copies.iter();
        for backing in &mut self.backings {
            for (state, copy) in self.tables.blocks().zip(&mut copies) {
                backing.put_block(state, block, copy)?;
            }
        }
        Ok(())
    }
}

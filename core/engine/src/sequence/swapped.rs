//! [`SwappedState`]: the state of a preempted sequence, in host memory until the pool has room for it again.

use super::stored::StoredSequence;

/// The state of a preempted sequence, copied out of the pool.
#[derive(Debug)]
pub(crate) struct SwappedState {
    pub(crate) stored: StoredSequence,
    /// Its bytes, by section.
    pub(crate) sections: Vec<Vec<u8>>,
}

impl SwappedState {
    /// The number of its tokens.
    pub(crate) fn tokens(&self) -> usize {
        self.stored.tokens
    }

    /// By state: the first position whose rows it has.
    pub(crate) fn first(&self) -> Vec<usize> {
        self.stored.first()
    }

    /// Its size.
    pub(crate) fn bytes(&self) -> usize {
        self.sections.iter().map(Vec::len).sum()
    }
}

//! [`SwappedState`]: state of a preempted sequence, kept in memory until the pool has room for it again.

use super::stored::StoredSequence;

/// State of a preempted sequence, copied out of the pool.
#[derive(Debug)]
pub(crate) struct SwappedState {
    pub(crate) stored: StoredSequence,
    /// By section of it.
    pub(crate) sections: Vec<Vec<u8>>,
}

impl SwappedState {
    /// Tokens whose state it is.
    pub(crate) fn tokens(&self) -> usize {
        self.stored.tokens
    }

    /// By state: the first position whose rows it has.
    pub(crate) fn first(&self) -> Vec<usize> {
        self.stored.first()
    }

    /// Bytes of it.
    pub(crate) fn bytes(&self) -> usize {
        self.sections.iter().map(Vec::len).sum()
    }
}

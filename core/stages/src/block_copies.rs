//! [`BlockCopies`]: copies of recurrent states that a stage keeps for a request.

use menagerie_model::{BlockCopy, ModelError};
use std::collections::HashMap;

/// Copies of blocks of recurrent states, by the number that the chain assigned to each.
#[derive(Default)]
pub(crate) struct BlockCopies {
    copies: HashMap<u64, BlockCopy>,
    bytes: u64,
}

impl BlockCopies {
    /// The copy of a number.
    ///
    /// # Errors
    /// [`ModelError::State`] if there is none.
    pub(crate) fn get(&self, number: u64) -> Result<&BlockCopy, ModelError> {
        self.copies
            .get(&number)
            .ok_or_else(|| ModelError::State(format!("this stage has no copy {number} of a recurrent state")))
    }

    /// Keeps a copy under a number, in place of an earlier one.
    pub(crate) fn insert(&mut self, number: u64, copy: BlockCopy) {
        self.remove(number);
        self.bytes = self.bytes.saturating_add(copy.bytes() as u64);
        self.copies.insert(number, copy);
    }

    /// Drops a copy.
    pub(crate) fn remove(&mut self, number: u64) {
        if let Some(copy) = self.copies.remove(&number) {
            self.bytes = self.bytes.saturating_sub(copy.bytes() as u64);
        }
    }

    /// Bytes of all copies.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_are_those_of_the_copies_that_are_kept() {
        let mut copies = BlockCopies::default();
        copies.insert(1, BlockCopy::Values(vec![0.5; 4]));
        copies.insert(2, BlockCopy::Values(vec![0.5; 2]));
        assert_eq!(copies.bytes(), 24);
        copies.insert(1, BlockCopy::Values(vec![0.5]));
        assert_eq!(copies.bytes(), 12);
        copies.remove(2);
        copies.remove(2);
        assert_eq!((copies.bytes(), copies.get(1).is_ok(), copies.get(2).is_err()), (4, true, true));
    }
}

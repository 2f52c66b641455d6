//! Blocks read back and written whole, for components that compute on the host.

use super::StatePool;
use crate::Result;
use crate::state::{SequenceId, StateId};

impl StatePool {
    /// The elements of a per-sequence state, read back from where the backend keeps them.
    ///
    /// # Errors
    /// [`crate::ModelError::State`] if the state is per token or there is no such sequence.
    pub fn read_block(&self, state: StateId, sequence: SequenceId) -> Result<Vec<f32>> {
        self.check_kept(sequence)?;
        self.backings[self.set].read_block(state, self.tables.block(state, sequence)?)
    }

    /// The blocks of a per-sequence state in host memory, one after the other, to be read and changed in place; absent
    /// if they are elsewhere. [`Self::block_number`] tells which block belongs to which sequence.
    ///
    /// # Errors
    /// [`crate::ModelError::State`] if the state is per token.
    pub fn host_blocks(&mut self, state: StateId) -> Result<Option<&mut [f32]>> {
        self.backings[self.set].host_blocks(state)
    }

    /// Number of a sequence's block among those of a per-sequence state.
    ///
    /// # Errors
    /// As [`Self::read_block`].
    pub fn block_number(&self, state: StateId, sequence: SequenceId) -> Result<usize> {
        self.tables.block(state, sequence).map(|block| block as usize)
    }

    /// Replaces the elements of a per-sequence state.
    ///
    /// # Errors
    /// As [`Self::read_block`]; another number of elements.
    pub fn write_block(&mut self, state: StateId, sequence: SequenceId, values: &[f32]) -> Result<()> {
        self.check_kept(sequence)?;
        self.backings[self.set].write_block(state, self.tables.block(state, sequence)?, values)
    }
}

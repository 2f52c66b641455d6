//! [`StateBacking`]: the memory of states, where a backend computes.

use super::{KvType, StateId, StateSpec};
use crate::Result;
use std::any::Any;

/// Room for one state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StateRoom {
    /// Pages of token rows.
    Pages {
        /// How rows are stored.
        dtype: KvType,
        /// Heads per row.
        heads: usize,
        /// Elements per head.
        head_dim: usize,
        /// Pages.
        pages: usize,
    },
    /// Blocks of f32, one per sequence.
    Blocks {
        /// Elements of a block.
        elements: usize,
        /// Blocks.
        blocks: usize,
    },
}

/// Everything a pool wants memory for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatePlan {
    /// What was declared, by state id.
    pub specs: Vec<StateSpec>,
    /// Room per state, by state id.
    pub rooms: Vec<StateRoom>,
    /// Token rows of a page.
    pub page_len: usize,
}

/// Memory for the states of a pool: pages of token rows, and blocks per sequence. It knows no sequences: the pool's
/// tables say which pages and blocks are whose. The backend that made it downcasts it to its own type in its operations.
pub trait StateBacking: Any + Send + Sync {
    /// Copies a page of a per-token state (a fork is about to write into a page it shares).
    ///
    /// # Errors
    /// What the device reports.
    fn copy_page(&mut self, state: StateId, from: u32, to: u32) -> Result<()>;

    /// Sets a block of a per-sequence state to zeros.
    ///
    /// # Errors
    /// What the device reports.
    fn clear_block(&mut self, state: StateId, block: u32) -> Result<()>;

    /// Copies a block of a per-sequence state.
    ///
    /// # Errors
    /// What the device reports.
    fn copy_block(&mut self, state: StateId, from: u32, to: u32) -> Result<()>;

    /// The elements of a block, for a snapshot.
    ///
    /// # Errors
    /// What the device reports.
    fn read_block(&self, state: StateId, block: u32) -> Result<Vec<f32>>;

    /// The blocks of a state one after the other, to be read and changed in place; absent where they are not in host memory.
    ///
    /// # Errors
    /// A state that has none.
    fn host_blocks(&mut self, _state: StateId) -> Result<Option<&mut [f32]>> {
        Ok(None)
    }

    /// Puts the elements of a snapshot back.
    ///
    /// # Errors
    /// What the device reports.
    fn write_block(&mut self, state: StateId, block: u32, values: &[f32]) -> Result<()>;
}

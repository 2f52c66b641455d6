//! [`StateBacking`]: the memory of states, where a backend computes.

use super::{RowRun, StateId, StateSpec};
use crate::{ModelError, Result};
use menagerie_formulas::KvType;
use std::any::Any;
use std::fmt;
use std::sync::Arc;

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

/// The requirements of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatePlan {
    /// The declared states, by state id.
    pub specs: Vec<StateSpec>,
    /// Room per state, by state id.
    pub rooms: Vec<StateRoom>,
    /// Token rows of a page.
    pub page_len: usize,
}

/// A copy of a block that a sequence can return to.
#[derive(Clone)]
pub enum BlockCopy {
    /// Its elements.
    Values(Vec<f32>),
    /// The key of a copy that the backing keeps itself; the copy is freed with the last clone.
    Handle(Arc<dyn Any + Send + Sync>),
}

impl BlockCopy {
    /// Bytes of the copy, if it is here.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Values(values) => values.len() * size_of::<f32>(),
            Self::Handle(_) => 0,
        }
    }
}

impl fmt::Debug for BlockCopy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Values(values) => write!(f, "{} values", values.len()),
            Self::Handle(_) => f.write_str("a copy in device memory"),
        }
    }
}

/// A device that has memory for states; every backend is one.
pub trait StateMemory {
    /// Memory for the states of a pool. Memory that was never written to should cost nothing if the device supports
    /// that.
    ///
    /// # Errors
    /// The device has no room, or cannot store a state as the plan requires.
    fn state_backing(&self, plan: &StatePlan) -> Result<Box<dyn StateBacking>>;
}

/// Memory for the states of a pool: pages of token rows, and blocks per sequence. It does not know sequences: the
/// pool's tables record which pages and blocks belong to which sequence. The backend that made it downcasts it to its
/// own type in its operations.
pub trait StateBacking: Any + Send + Sync {
    /// Copies a page of a per-token state (a fork is about to write into a page it shares).
    ///
    /// # Errors
    /// What the device reports.
    fn copy_page(&mut self, state: StateId, from: u32, to: u32) -> Result<()>;

    /// Rows of a per-token state as they are stored, one after the other (heads within a row), to be stored elsewhere.
    ///
    /// # Errors
    /// What the device reports.
    fn read_rows(&self, state: StateId, run: RowRun) -> Result<Vec<u8>>;

    /// Restores rows that [`Self::read_rows`] returned.
    ///
    /// # Errors
    /// The wrong number of bytes; errors of the device.
    fn write_rows(&mut self, state: StateId, run: RowRun, bytes: &[u8]) -> Result<()>;

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

    /// The blocks of a state one after the other, to be read and changed in place; absent if they are not in host
    /// memory.
    ///
    /// # Errors
    /// A state that has none.
    fn host_blocks(&mut self, _state: StateId) -> Result<Option<&mut [f32]>> {
        Ok(None)
    }

    /// A copy of a block, for a snapshot: its elements, unless the backing keeps it itself.
    ///
    /// # Errors
    /// What the device reports.
    fn keep_block(&mut self, state: StateId, block: u32) -> Result<BlockCopy> {
        self.read_block(state, block).map(BlockCopy::Values)
    }

    /// The elements of a copy of [`StateBacking::keep_block`], to be stored elsewhere.
    ///
    /// # Errors
    /// Errors of the device; a copy that another backing keeps.
    fn kept_values(&self, kept: &BlockCopy) -> Result<Vec<f32>> {
        match kept {
            BlockCopy::Values(values) => Ok(values.clone()),
            BlockCopy::Handle(_) => Err(kept_elsewhere()),
        }
    }

    /// Restores a copy of [`StateBacking::keep_block`].
    ///
    /// # Errors
    /// Errors of the device; a copy that another backing keeps.
    fn put_block(&mut self, state: StateId, block: u32, kept: &BlockCopy) -> Result<()> {
        match kept {
            BlockCopy::Values(values) => self.write_block(state, block, values),
            BlockCopy::Handle(_) => Err(kept_elsewhere()),
        }
    }

    /// The number of the current memory: another number means that everything written before is lost.
    fn epoch(&self) -> u64 {
        0
    }

    /// Why the memory of the epoch before was lost, if known.
    fn loss(&self) -> Option<ModelError> {
        None
    }

    /// Restores the elements of a snapshot.
    ///
    /// # Errors
    /// What the device reports.
    fn write_block(&mut self, state: StateId, block: u32, values: &[f32]) -> Result<()>;
}

fn kept_elsewhere() -> ModelError {
    ModelError::State("the snapshot belongs to another pool".to_owned())
}

//! State of sequences: declared by components ([`StateSpec`]), owned by the pipeline ([`StatePool`]), kept where a backend
//! computes ([`StateBacking`]).
//!
//! A component declares what it keeps and gets a [`StateId`] at assembly; the operations of a backend read and write it
//! for the rows of the layout. Position and length live here and nowhere else.

mod backing;
mod options;
mod plan;
mod pool;
mod spec;

pub use backing::{KeptBlock, StateBacking, StatePlan, StateRoom};
pub use options::PoolOptions;
pub use pool::{Pages, PlacedPages, Placement, Run, Snapshot, StatePool, StateTables};
pub use spec::{StateDeclarations, StateSpec};

use std::fmt;

/// Index of a declared state in a [`StatePool`]; not a layer index (layers may share, loops may have several).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StateId(pub usize);

/// A sequence in a [`StatePool`]; X-LoRA and speculation use several for one request. No other pool takes it for one of its
/// own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SequenceId {
    /// Number of the pool.
    pool: u64,
    slot: u32,
    /// Sequences that were in the slot before.
    generation: u32,
}

impl SequenceId {
    fn slot(self) -> usize {
        self.slot as usize
    }

    /// Two numbers that together no other sequence of this process has: its pool's, and its own among those of the pool.
    pub fn numbers(self) -> [u64; 2] {
        [self.pool, u64::from(self.generation) << 32 | u64::from(self.slot)]
    }
}

impl fmt::Display for SequenceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.slot)?;
        if self.generation > 0 { write!(f, ".{}", self.generation) } else { Ok(()) }
    }
}

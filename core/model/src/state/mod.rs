//! State of sequences: declared by components ([`StateSpec`]), owned by the pipeline ([`StatePool`]), stored where a
//! backend computes ([`StateBacking`]).
//!
//! A component declares what it keeps and gets a [`StateId`] at assembly; the operations of a backend read and write it
//! for the rows of the layout. Position and length are stored here and nowhere else.

mod backing;
mod options;
mod plan;
mod pool;
mod spec;

pub(crate) use crate::sequence_id::SequenceId;
pub use backing::{BlockCopy, StateBacking, StateMemory, StatePlan, StateRoom};
pub use options::PoolOptions;
pub use pool::{Pages, PlacedPages, Placement, RowRun, Snapshot, StatePool, StateTables};
pub use spec::{StateDeclarations, StateSpec};

/// Index of a declared state in a [`StatePool`]; not a layer index (layers may share, loops may have several).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StateId(pub usize);

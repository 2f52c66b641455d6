//! [`Table`]: rows looked up by token id; adapters of an embedding wrap it.

use crate::Result;
use crate::context::TransformContext;
use crate::param::Param;
use crate::rows::Rows;

/// A table `[V, D]`; every row of a step uses one of its rows.
pub trait Table: Send + Sync {
    /// V.
    fn rows(&self) -> usize;

    /// D.
    fn width(&self) -> usize;

    /// Rows `[T, D]` of the ids of a step's T rows.
    ///
    /// # Errors
    /// [`crate::ModelError::TokenOutOfRange`] for an id past the table.
    fn lookup(&self, ids: &[u32], context: &TransformContext) -> Result<Rows>;
}

/// A stored table without adapters.
#[derive(Clone, Debug)]
pub struct StoredTable(pub Param);

impl Table for StoredTable {
    fn rows(&self) -> usize {
        self.0.shape().rows
    }

    fn width(&self) -> usize {
        self.0.shape().cols
    }

    fn lookup(&self, ids: &[u32], context: &TransformContext) -> Result<Rows> {
        context.reads_some(&self.0, ids.len(), self.0.shape().rows);
        context.compute.backend.lookup(&self.0, ids)
    }
}

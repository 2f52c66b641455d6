//! [`Table`]: rows looked up by token id; what adapters of an embedding wrap.

use crate::Result;
use crate::context::TransformContext;
use crate::param::Param;
use crate::rows::Rows;

/// A table `[V, D]` of which every row of a step takes one.
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

/// A stored table with nothing around it.
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

//! [`TableEmbedding`]: rows of a stored table.

use crate::compute::Compute;
use crate::linear::Weight;
use crate::traits::{Norm, TokenEmbedding};
use crate::{Result, ops};
use candle_core::Tensor;

/// Dequantises the rows of the tokens; then scale, learned positions, token type and norm, where the model has them.
pub struct TableEmbedding {
    /// `[V, D]`.
    pub table: Weight,
    /// Multiplies the rows (1 = none).
    pub scale: f32,
    /// Learned positions, `[context, D]`.
    pub positions: Option<Weight>,
    /// Row of token type 0, `[D]`.
    pub token_type: Option<Vec<f32>>,
    /// Norm of the sum.
    pub norm: Option<Box<dyn Norm>>,
}

impl TokenEmbedding for TableEmbedding {
    fn vocabulary(&self) -> usize {
        self.table.rows()
    }

    fn embed(&self, tokens: &[u32], positions: &[u32], compute: &Compute) -> Result<Tensor> {
        let mut rows = ops::gather_weight_rows(&self.table, tokens)?;
        rows = ops::scale(rows, self.scale, compute)?;
        if let Some(table) = &self.positions {
            rows = ops::add_rows_at(rows, table, positions)?;
        }
        if let Some(row) = &self.token_type {
            rows = ops::add_row(rows, row)?;
        }
        match &self.norm {
            Some(norm) => norm.forward(&rows, compute),
            None => Ok(rows),
        }
    }
}

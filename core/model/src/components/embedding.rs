//! [`TableEmbedding`]: rows of a stored table.

use crate::context::{StepInput, TransformContext};
use crate::param::Param;
use crate::rows::Rows;
use crate::traits::{Norm, TokenEmbedding};
use crate::{ModelError, Result};

/// Looks the rows of the tokens up; then scale, learned positions, token type and norm, where the model has them.
pub struct TableEmbedding {
    /// `[V, D]`.
    pub table: Param,
    /// Multiplies the rows of tokens (1 = none).
    pub scale: f32,
    /// Learned positions, `[context, D]`.
    pub positions: Option<Param>,
    /// Row of token type 0, `[D]`.
    pub token_type: Option<Param>,
    /// Norm of the sum.
    pub norm: Option<Box<dyn Norm>>,
}

impl TableEmbedding {
    /// Rows of ids, scaled; rows given in their place as they are.
    fn input(&self, context: &TransformContext) -> Result<Rows> {
        let backend = &context.compute.backend;
        let width = self.table.shape().cols;
        let rows = match context.input {
            StepInput::Tokens(ids) => {
                let rows = backend.lookup(&self.table, ids)?;
                if self.scale == 1.0 { rows } else { backend.scale(rows, self.scale)? }
            }
            StepInput::Embeddings(values) => backend.upload(values.to_vec(), width)?,
        };
        rows.expect_shape(context.layout.rows(), width, "input of the step")?;
        Ok(rows)
    }

    fn add_positions(&self, rows: Rows, table: &Param, context: &TransformContext) -> Result<Rows> {
        let positions = context.layout.positions().only_axis()?;
        let known = table.shape().rows;
        if let Some(far) = positions.iter().find(|position| **position as usize >= known) {
            return Err(ModelError::Unsupported(format!(
                "position {far} is past the {known} learned positions of the model; a shorter text or context is needed"
            )));
        }
        let backend = &context.compute.backend;
        let learned = backend.lookup(table, positions)?;
        backend.add(rows, &learned)
    }
}

impl TokenEmbedding for TableEmbedding {
    fn vocabulary(&self) -> usize {
        self.table.shape().rows
    }

    fn embed(&self, context: &TransformContext) -> Result<Rows> {
        let mut rows = self.input(context)?;
        if let Some(table) = &self.positions {
            rows = self.add_positions(rows, table, context)?;
        }
        if let Some(row) = &self.token_type {
            rows = context.compute.backend.add_vector(rows, row)?;
        }
        match &self.norm {
            Some(norm) => norm.forward(&rows, context),
            None => Ok(rows),
        }
    }
}

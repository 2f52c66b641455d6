//! [`TableEmbedding`]: rows of a stored table.

use crate::context::{StepInput, TransformContext};
use crate::param::Param;
use crate::rows::Rows;
use crate::table::Table;
use crate::traits::{Norm, TokenEmbedding};
use crate::{ModelError, Result};

/// Looks up the rows of the tokens; then applies scale, learned positions, token types and norm, if the model has them.
pub struct TableEmbedding {
    /// `[V, D]`.
    pub table: Box<dyn Table>,
    /// Multiplies the rows of tokens (1 = none).
    pub scale: f32,
    /// Learned positions, `[context, D]`.
    pub positions: Option<Param>,
    /// Rows of token types, `[types, D]`.
    pub token_types: Option<Param>,
    /// Norm of the sum.
    pub norm: Option<Box<dyn Norm>>,
}

impl TableEmbedding {
    /// Rows of ids, scaled; rows that replace them are unchanged.
    fn input(&self, context: &TransformContext) -> Result<Rows> {
        let backend = &context.compute.backend;
        let width = self.table.width();
        let rows = match context.input {
            StepInput::Tokens(ids) => {
                let rows = self.table.lookup(ids, context)?;
                if self.scale == 1.0 { rows } else { backend.scale(rows, self.scale)? }
            }
            StepInput::Embeddings(values) => backend.upload(values.to_vec(), width)?,
        };
        rows.expect_shape(context.layout.rows(), width, "input of the step")?;
        Ok(rows)
    }

    /// A model with one type uses it for every token (RoBERTa).
    fn add_types(&self, rows: Rows, table: &Param, context: &TransformContext) -> Result<Rows> {
        let last = u32::try_from(table.shape().rows.saturating_sub(1)).unwrap_or(u32::MAX);
        let types: Vec<u32> = match context.token_types {
            Some(types) => types.iter().map(|of| (*of).min(last)).collect(),
            None => vec![0; context.layout.rows()],
        };
        let backend = &context.compute.backend;
        let own = backend.lookup(table, &types)?;
        backend.add(rows, &own)
    }

    fn add_positions(&self, rows: Rows, table: &Param, context: &TransformContext) -> Result<Rows> {
        let positions = context.layout.positions().only_axis()?;
        let known = table.shape().rows;
        if let Some(far) = positions.iter().find(|position| **position as usize >= known) {
            return Err(ModelError::Unsupported(format!(
                "position {far} is past the {known} learned positions of the model; use a shorter text or context"
            )));
        }
        let backend = &context.compute.backend;
        let learned = backend.lookup(table, positions)?;
        backend.add(rows, &learned)
    }
}

impl TokenEmbedding for TableEmbedding {
    fn vocabulary(&self) -> usize {
        self.table.rows()
    }

    fn embed(&self, context: &mut TransformContext) -> Result<Rows> {
        let mut rows = self.input(context)?;
        if let Some(table) = &self.positions {
            rows = self.add_positions(rows, table, context)?;
        }
        if let Some(table) = &self.token_types {
            rows = self.add_types(rows, table, context)?;
        }
        match &self.norm {
            Some(norm) => norm.forward(&rows, context),
            None => Ok(rows),
        }
    }
}

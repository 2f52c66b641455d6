//! [`QkNorm`]: norms on queries and keys; [`HeadNorm`] norms the heads of rows.

use crate::Result;
use crate::context::TransformContext;
use crate::param::Param;
use crate::rows::Rows;
use crate::traits::Norm;

/// A norm over parts of a row: one head, or all heads together.
pub struct HeadNorm {
    /// Norms every part as a separate row.
    pub norm: Box<dyn Norm>,
    /// Elements of a part: the mean is over them.
    pub width: usize,
    /// Weights that differ from part to part, one for every element of a row; the norm itself then has none.
    pub row_weight: Option<Param>,
    /// Biases that differ from part to part, one for every element of a row.
    pub row_bias: Option<Param>,
}

impl HeadNorm {
    /// Norms the parts of rows `[T, columns]`.
    ///
    /// # Errors
    /// [`crate::ModelError::Shape`] if a row is not whole parts, or a weight does not fit.
    pub fn forward(&self, x: Rows, context: &TransformContext) -> Result<Rows> {
        let (rows, columns) = (x.rows(), x.cols());
        let parts = x.reshape((rows * columns).checked_div(self.width).unwrap_or(0), self.width)?;
        let mut normed = self.norm.forward(&parts, context)?.reshape(rows, columns)?;
        let backend = &context.compute.backend;
        if let Some(weight) = &self.row_weight {
            normed = backend.multiply_vector(normed, weight)?;
        }
        match &self.row_bias {
            Some(bias) => backend.add_vector(normed, bias),
            None => Ok(normed),
        }
    }
}

/// Where a QK-norm is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QkNormPlace {
    /// Between projection and rope (Qwen3, Gemma 3).
    BeforeRope,
    /// After rope (Hunyuan).
    AfterRope,
}

/// Norms of queries and keys, each with its own weights.
pub struct QkNorm {
    /// On queries.
    pub query: HeadNorm,
    /// On keys.
    pub key: HeadNorm,
    /// Before or after rope.
    pub place: QkNormPlace,
}

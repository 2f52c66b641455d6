//! [`AttentionGate`]: the gate on the heads' outputs before the output product.

use crate::context::TransformContext;
use crate::linear::Linear;
use crate::linear_input::LinearInput;
use crate::rows::Rows;
use crate::{ModelError, Result};
use menagerie_formulas::{Activation, AttentionShape, Gating};

/// Where a gate comes from.
pub enum GateSource {
    /// Its own product over the attention's input: `[D]` to `[heads * value_dim]` or, one factor per head, `[heads]`.
    Own(Box<dyn Linear>),
    /// The query product, each of whose heads has a query and then the gate of that head's output (Qwen3-Next).
    BesideQueries,
}

/// A gate on the output of an attention: `heads * activation(gate)`.
pub struct AttentionGate {
    /// Where it comes from.
    pub source: GateSource,
    /// Its activation.
    pub activation: Activation,
}

impl AttentionGate {
    /// Rows that the query product has with this gate.
    ///
    /// # Errors
    /// [`ModelError::Shape`] for a gate that fits neither heads nor their elements.
    pub(super) fn query_rows(&self, shape: &AttentionShape) -> Result<usize> {
        let (queries, width) = (shape.heads * shape.key_dim, shape.heads * shape.value_dim);
        match &self.source {
            GateSource::BesideQueries => Ok(queries + width),
            GateSource::Own(linear) if [shape.heads, width].contains(&linear.out_features()) => Ok(queries),
            GateSource::Own(linear) => Err(ModelError::Shape {
                what: "attention: rows of the gate product".to_owned(),
                expected: format!("{} (one per head) or {width} (one per element)", shape.heads),
                found: linear.out_features().to_string(),
            }),
        }
    }

    /// Queries `[T, heads * key_dim]` and the gate of the rows of `x`; `query` is the result of the query product.
    ///
    /// # Errors
    /// What the backend returns.
    pub(super) fn split(
        &self,
        query: Rows,
        x: &LinearInput,
        shape: &AttentionShape,
        context: &TransformContext,
    ) -> Result<[Rows; 2]> {
        let GateSource::Own(linear) = &self.source else {
            let (rows, heads) = (query.rows(), shape.heads);
            let (key_dim, both) = (shape.key_dim, shape.key_dim + shape.value_dim);
            let backend = &context.compute.backend;
            let by_head = query.reshape(rows * heads, both)?;
            let query = backend.columns(&by_head, 0..key_dim)?.reshape(rows, heads * key_dim)?;
            let gate = backend.columns(&by_head, key_dim..both)?.reshape(rows, heads * shape.value_dim)?;
            return Ok([query, gate]);
        };
        Ok([query, linear.forward(x, context)?])
    }

    /// The heads' outputs `mixed` `[T, heads * value_dim]` times the activated gate.
    ///
    /// # Errors
    /// What the backend returns.
    pub(super) fn apply(&self, mixed: Rows, gate: Rows, context: &TransformContext) -> Result<Rows> {
        let backend = &context.compute.backend;
        let (rows, width, factors) = (mixed.rows(), mixed.cols(), gate.cols());
        if factors == width {
            return backend.gated(gate, &mixed, Gating::Plain(self.activation));
        }
        let heads = mixed.reshape(rows * factors, width / factors.max(1))?;
        let gate = gate.reshape(rows * factors, 1)?;
        backend.gate_rows(heads, &gate, self.activation)?.reshape(rows, width)
    }
}

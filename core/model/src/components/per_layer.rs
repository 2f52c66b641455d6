//! Rows that each layer gets in addition to the stream: [`PerLayerEmbedding`] computes them, [`PerLayerInput`] uses
//! them.

use crate::context::{StepInput, TransformContext};
use crate::element_wise::GateForm;
use crate::linear::Linear;
use crate::linear_input::LinearInput;
use crate::param::Param;
use crate::rows::Rows;
use crate::traits::{FeedForward, Norm, Raw, TokenEmbedding};
use crate::{ModelError, Result};

/// An embedding that also computes a row for every token and layer (Gemma 3n, 2025):
/// `scale * (token_scale * table[id] + norm(projection_scale * projection(embedded)))`.
pub struct PerLayerEmbedding {
    /// The embedding of the stream.
    pub stream: Box<dyn TokenEmbedding>,
    /// `[V, layers * width]`.
    pub table: Param,
    /// `[D]` to `[layers * width]`.
    pub projection: Box<dyn Linear>,
    /// Norm on the projection, over the row of a layer.
    pub norm: Option<Box<dyn Norm>>,
    /// Elements of the row of a layer.
    pub width: usize,
    /// Multiplies the rows of the table.
    pub token_scale: f32,
    /// Multiplies the projection.
    pub projection_scale: f32,
    /// Multiplies the sum.
    pub scale: f32,
}

impl TokenEmbedding for PerLayerEmbedding {
    fn vocabulary(&self) -> usize {
        self.stream.vocabulary()
    }

    fn embed(&self, context: &mut TransformContext) -> Result<Rows> {
        let StepInput::Tokens(ids) = context.input else {
            return Err(ModelError::Unsupported(
                "this model looks up each token for every layer too: rows cannot replace token ids; pass token ids".to_owned(),
            ));
        };
        let embedded = self.stream.embed(context)?;
        let backend = &context.compute.backend;
        let projected = self.projection.forward(&LinearInput::new(&embedded), context)?;
        let rows = (projected.rows() * projected.cols()).checked_div(self.width).unwrap_or(0);
        let mut projected = backend.scale(projected, self.projection_scale)?.reshape(rows, self.width)?;
        if let Some(norm) = &self.norm {
            projected = norm.forward(&projected, context)?;
        }
        let looked_up = backend.lookup(&self.table, ids)?.reshape(rows, self.width)?;
        let looked_up = backend.scale(looked_up, self.token_scale)?;
        context.per_layer = Some(backend.scale(backend.add(projected, &looked_up)?, self.scale)?);
        Ok(embedded)
    }
}

/// `projection(activation(gate(x)) * row)` with the row of its layer.
pub struct PerLayerInput {
    /// `[D]` to `[width]`.
    pub gate: Box<dyn Linear>,
    /// Its activation is that of the gate.
    pub gating: GateForm,
    /// `[width]` to `[D]`.
    pub projection: Box<dyn Linear>,
    /// Which row of a token it uses.
    pub layer: usize,
}

impl FeedForward for PerLayerInput {
    fn forward(&self, x: &Rows, _raw: Raw, context: &mut TransformContext) -> Result<Rows> {
        let backend = &context.compute.backend;
        let Some(per_layer) = &context.per_layer else {
            return Err(ModelError::Unsupported(
                "this part of the model lacks the embedding that makes the inputs of its layers; run the model in one \
                 piece"
                    .to_owned(),
            ));
        };
        let layers = per_layer.rows().checked_div(x.rows()).unwrap_or(0);
        let own: Vec<u32> = (0..x.rows()).map(|token| (token * layers + self.layer) as u32).collect();
        let own = backend.select(per_layer, &own)?;
        let gate = self.gate.forward(&LinearInput::new(x), context)?;
        let gated = self.gating.apply(gate, &own, context)?;
        self.projection.forward(&LinearInput::new(&gated), context)
    }
}

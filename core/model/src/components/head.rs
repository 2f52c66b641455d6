//! [`LinearHead`]: norm, product, scale and cap.

use crate::Result;
use crate::context::TransformContext;
use crate::linear::Linear;
use crate::linear_input::LinearInput;
use crate::param::Param;
use crate::rows::Rows;
use crate::traits::{Norm, OutputHead};

/// Hidden rows to logits, by its own matrix or the embedding's.
pub struct LinearHead {
    /// Norm before the product.
    pub norm: Option<Box<dyn Norm>>,
    /// `[D]` to `[V]`.
    pub product: Box<dyn Linear>,
    /// Multiplies logits (1 = none).
    pub scale: f32,
    /// `cap * tanh(x / cap)`, after the scale.
    pub softcap: Option<f32>,
    /// Added at the end, `[V]`: the lowest number for ids that are never generated (Chameleon), 0 for the others.
    pub suppress: Option<Param>,
}

impl OutputHead for LinearHead {
    fn vocabulary(&self) -> usize {
        self.product.out_features()
    }

    fn norm(&self, hidden: Rows, context: &TransformContext) -> Result<Rows> {
        match &self.norm {
            Some(norm) => norm.forward(&hidden, context),
            None => Ok(hidden),
        }
    }

    fn logits(&self, normed: &Rows, origin: &[u32], context: &TransformContext) -> Result<Rows> {
        let backend = &context.compute.backend;
        let mut logits = self.product.forward(&LinearInput::selected(normed, origin)?, context)?;
        if self.scale != 1.0 {
            logits = backend.scale(logits, self.scale)?;
        }
        if let Some(cap) = self.softcap {
            logits = backend.softcap(logits, cap)?;
        }
        match &self.suppress {
            Some(lowest) => backend.add_vector(logits, lowest),
            None => Ok(logits),
        }
    }
}

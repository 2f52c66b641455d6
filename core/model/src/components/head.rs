//! [`LinearHead`]: norm, product, scale and cap.

use crate::activation::Activated;
use crate::compute::Compute;
use crate::linear::DenseLinear;
use crate::traits::{Linear, Norm, OutputHead};
use crate::{Result, ops};
use candle_core::Tensor;

/// Hidden rows to logits, by a matrix of its own or the embedding's.
pub struct LinearHead {
    /// Norm before the product.
    pub norm: Option<Box<dyn Norm>>,
    /// `[D]` to `[V]`.
    pub product: DenseLinear,
    /// Multiplies logits (1 = none).
    pub scale: f32,
    /// `cap * tanh(x / cap)`, after the scale.
    pub softcap: Option<f32>,
}

impl OutputHead for LinearHead {
    fn vocabulary(&self) -> usize {
        self.product.out_features()
    }

    fn norm(&self, hidden: &Tensor, compute: &Compute) -> Result<Tensor> {
        match &self.norm {
            Some(norm) => norm.forward(hidden, compute),
            None => Ok(hidden.clone()),
        }
    }

    fn logits(&self, normed: &Tensor, compute: &Compute) -> Result<Tensor> {
        let logits = self.product.apply(&Activated::new(normed)?, compute)?;
        let logits = ops::scale(logits, self.scale, compute)?;
        match self.softcap {
            Some(cap) => ops::softcap(logits, cap, compute),
            None => Ok(logits),
        }
    }
}

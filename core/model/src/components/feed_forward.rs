//! Gated and plain feed-forwards.

use crate::activation::Activated;
use crate::context::TransformContext;
use crate::traits::{FeedForward, Linear};
use crate::{Result, ops};
use candle_core::Tensor;
use menagerie_kernels::Activation;

/// `down(activation(gate(x)) * up(x))` (Shazeer, 2020). Gate and up of a fused weight are row ranges of it.
pub struct GatedFeedForward {
    /// `[D]` to `[F]`.
    pub gate: Box<dyn Linear>,
    /// `[D]` to `[F]`.
    pub up: Box<dyn Linear>,
    /// `[F]` to `[D]`.
    pub down: Box<dyn Linear>,
    /// Activation of the gate.
    pub activation: Activation,
}

impl FeedForward for GatedFeedForward {
    fn forward(&self, x: &Tensor, _block_input: &Tensor, context: &mut TransformContext) -> Result<Tensor> {
        let [gate, up] = {
            let x = Activated::new(x)?;
            ops::linear_many([&*self.gate, &*self.up], &x, context)?
        };
        let inner = ops::gated(&gate, &up, self.activation, context.compute)?;
        drop((gate, up));
        self.down.forward(&Activated::new(&inner)?, context)
    }
}

/// `down(activation(up(x)))`.
pub struct PlainFeedForward {
    /// `[D]` to `[F]`.
    pub up: Box<dyn Linear>,
    /// `[F]` to `[D]`.
    pub down: Box<dyn Linear>,
    /// Activation between the two.
    pub activation: Activation,
}

impl FeedForward for PlainFeedForward {
    fn forward(&self, x: &Tensor, _block_input: &Tensor, context: &mut TransformContext) -> Result<Tensor> {
        let inner = self.up.forward(&Activated::new(x)?, context)?;
        let inner = ops::activate(inner, self.activation, context.compute)?;
        self.down.forward(&Activated::new(&inner)?, context)
    }
}

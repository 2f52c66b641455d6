//! Gated and plain feed-forwards.

use crate::Result;
use crate::activated::Activated;
use crate::context::TransformContext;
use crate::linear::{Linear, linear_many};
use crate::pointwise::Activation;
use crate::rows::Rows;
use crate::traits::FeedForward;

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
    fn forward(&self, x: &Rows, _block_input: &Rows, context: &mut TransformContext) -> Result<Rows> {
        let [gate, up] = linear_many([&*self.gate, &*self.up], &Activated::new(x), context)?;
        let inner = context.compute.backend.gated(gate, &up, self.activation)?;
        drop(up);
        self.down.forward(&Activated::new(&inner), context)
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
    fn forward(&self, x: &Rows, _block_input: &Rows, context: &mut TransformContext) -> Result<Rows> {
        let inner = self.up.forward(&Activated::new(x), context)?;
        let inner = context.compute.backend.activate(inner, self.activation)?;
        self.down.forward(&Activated::new(&inner), context)
    }
}

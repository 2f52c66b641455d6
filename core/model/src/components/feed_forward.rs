//! Gated and plain feed-forwards.

use crate::Result;
use crate::context::TransformContext;
use crate::element_wise::{ActivationForm, GateForm};
use crate::linear::{Linear, linear_many};
use crate::linear_input::LinearInput;
use crate::rows::Rows;
use crate::traits::{FeedForward, Norm, Raw};

/// `down(norm(activation(gate(x)) * up(x)))` (Shazeer, 2020). Gate and up of a fused weight are row ranges of it.
pub struct GatedFeedForward {
    /// `[D]` to `[F]`.
    pub gate: Box<dyn Linear>,
    /// `[D]` to `[F]`.
    pub up: Box<dyn Linear>,
    /// `[F]` to `[D]`.
    pub down: Box<dyn Linear>,
    /// How gate and up become one.
    pub gating: GateForm,
    /// Norm before the down projection, over `F` (BitNet).
    pub inner_norm: Option<Box<dyn Norm>>,
}

impl FeedForward for GatedFeedForward {
    fn forward(&self, x: &Rows, _raw: Raw, context: &mut TransformContext) -> Result<Rows> {
        let [gate, up] = linear_many([&*self.gate, &*self.up], &LinearInput::new(x), context)?;
        let inner = self.gating.apply(gate, &up, context)?;
        drop(up);
        let inner = normed(inner, self.inner_norm.as_deref(), context)?;
        self.down.forward(&LinearInput::new(&inner), context)
    }
}

/// `down(norm(activation(up(x))))`.
pub struct PlainFeedForward {
    /// `[D]` to `[F]`.
    pub up: Box<dyn Linear>,
    /// `[F]` to `[D]`.
    pub down: Box<dyn Linear>,
    /// Activation between the two.
    pub activation: ActivationForm,
    /// Norm before the down projection, over `F`.
    pub inner_norm: Option<Box<dyn Norm>>,
}

impl FeedForward for PlainFeedForward {
    fn forward(&self, x: &Rows, _raw: Raw, context: &mut TransformContext) -> Result<Rows> {
        let inner = self.up.forward(&LinearInput::new(x), context)?;
        let inner = self.activation.apply(inner, context)?;
        let inner = normed(inner, self.inner_norm.as_deref(), context)?;
        self.down.forward(&LinearInput::new(&inner), context)
    }
}

fn normed(rows: Rows, norm: Option<&dyn Norm>, context: &TransformContext) -> Result<Rows> {
    match norm {
        Some(norm) => norm.forward(&rows, context),
        None => Ok(rows),
    }
}

//! [`LowRankLinear`]: two products, one after the other.

use crate::Result;
use crate::context::TransformContext;
use crate::linear::Linear;
use crate::linear_input::LinearInput;
use crate::rows::Rows;

/// `up(down(x))`.
pub struct LowRankLinear {
    /// To the rank.
    pub down: Box<dyn Linear>,
    /// From the rank.
    pub up: Box<dyn Linear>,
}

impl Linear for LowRankLinear {
    fn in_features(&self) -> usize {
        self.down.in_features()
    }

    fn out_features(&self) -> usize {
        self.up.out_features()
    }

    fn forward(&self, x: &LinearInput, context: &TransformContext) -> Result<Rows> {
        let rank = self.down.forward(x, context)?;
        self.up.forward(&LinearInput::new(&rank), context)
    }
}

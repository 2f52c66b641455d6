//! [`LinearMixer`]: one product instead of a mixer.

use crate::Result;
use crate::context::TransformContext;
use crate::linear::Linear;
use crate::linear_input::LinearInput;
use crate::rows::Rows;
use crate::traits::SequenceMixer;

/// One product instead of attention (Puzzle, 2024): no token sees another.
pub struct LinearMixer {
    /// `[D]` to `[D]`.
    pub product: Box<dyn Linear>,
}

impl SequenceMixer for LinearMixer {
    fn forward(&self, x: &Rows, context: &mut TransformContext) -> Result<Rows> {
        self.product.forward(&LinearInput::new(x), context)
    }
}

//! [`SumMixer`]: two mixers on the same rows.

use crate::Result;
use crate::context::TransformContext;
use crate::rows::Rows;
use crate::traits::SequenceMixer;

/// `first(x) + second(x)`.
pub struct SumMixer {
    /// Run first.
    pub first: Box<dyn SequenceMixer>,
    /// Run second.
    pub second: Box<dyn SequenceMixer>,
}

impl SequenceMixer for SumMixer {
    fn forward(&self, x: &Rows, context: &mut TransformContext) -> Result<Rows> {
        let first = self.first.forward(x, context)?;
        let second = self.second.forward(x, context)?;
        context.compute.backend.add(first, &second)
    }

    fn is_bidirectional(&self) -> bool {
        self.first.is_bidirectional() || self.second.is_bidirectional()
    }

    fn company_dependent(&self) -> Option<&'static str> {
        self.first.company_dependent().or_else(|| self.second.company_dependent())
    }
}

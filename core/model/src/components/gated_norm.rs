//! [`GatedNorm`]: the gate and norm of a recurrence's output before the output product.

use crate::Result;
use crate::components::HeadNorm;
use crate::context::TransformContext;
use crate::rows::Rows;
use menagerie_formulas::{Activation, Gating};

/// A gate on a mixer's output, and its norm.
pub enum GatedNorm {
    /// `x * silu(gate)`.
    Gate,
    /// `norm(x * silu(gate))` (Mamba-2).
    GateFirst(HeadNorm),
    /// `norm(x) * activation(gate)` (gated delta nets).
    NormFirst(HeadNorm, Activation),
}

impl GatedNorm {
    /// `[T, D]` to `[T, D]`; `gate` is before its activation.
    ///
    /// # Errors
    /// [`crate::ModelError::Shape`] for operands that do not fit.
    pub fn forward(&self, x: Rows, gate: Rows, context: &TransformContext) -> Result<Rows> {
        let (backend, silu) = (&context.compute.backend, Gating::Plain(Activation::Silu));
        match self {
            Self::Gate => backend.gated(gate, &x, silu),
            Self::GateFirst(norm) => norm.forward(backend.gated(gate, &x, silu)?, context),
            Self::NormFirst(norm, activation) => {
                backend.gated(gate, &norm.forward(x, context)?, Gating::Plain(*activation))
            }
        }
    }
}

//! [`CausalConv`]: the short convolution before a recurrence.

use crate::Result;
use crate::context::TransformContext;
use crate::param::Param;
use crate::rows::Rows;
use crate::state::{StateDeclarations, StateId, StateSpec};
use menagerie_formulas::Activation;

/// `silu(conv(x) + bias)`, the convolution causal and depthwise, over `[T, C]`.
pub struct CausalConv {
    taps: Param,
    bias: Option<Param>,
    state: StateId,
}

impl CausalConv {
    /// A convolution of `width` channels with `taps` `[L * C]`, tap after tap, and a bias `[C]`; its state, the last
    /// `L - 1` input rows, is declared here as `name`.
    ///
    /// # Errors
    /// [`crate::ModelError::Shape`] if there are not `L * C` taps, or `C` biases.
    pub fn new(
        name: &str,
        taps: Param,
        bias: Option<Param>,
        [length, width]: [usize; 2],
        declarations: &mut StateDeclarations,
    ) -> Result<Self> {
        taps.expect_len(width * length, "taps of a convolution")?;
        if let Some(bias) = &bias {
            bias.expect_len(width, "bias of a convolution")?;
        }
        let shape = vec![length.saturating_sub(1), width];
        let state = declarations.declare(StateSpec::PerSequence { name: name.to_owned(), shape });
        Ok(Self { taps, bias, state })
    }

    /// `[T, C]` to `[T, C]`.
    ///
    /// # Errors
    /// [`crate::ModelError::Shape`] for rows of another width.
    pub fn forward(&self, x: &Rows, context: &mut TransformContext) -> Result<Rows> {
        let backend = &context.compute.backend;
        let mut out = backend.short_conv(x, &self.taps, self.state, context.state_step())?;
        if let Some(bias) = &self.bias {
            out = backend.add_vector(out, bias)?;
        }
        backend.activate(out, Activation::Silu)
    }
}

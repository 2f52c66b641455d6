//! [`ShortConv`]: a short convolution between two gates.

use crate::Result;
use crate::context::TransformContext;
use crate::linear::{Linear, linear_many};
use crate::linear_input::LinearInput;
use crate::param::Param;
use crate::rows::Rows;
use crate::state::{StateDeclarations, StateId, StateSpec};
use crate::traits::SequenceMixer;

/// The products of a [`ShortConv`]. The first three are row ranges of one weight in files.
pub struct ShortConvLinears {
    /// `[D]` to `[D]`: multiplies the input of the convolution.
    pub before: Box<dyn Linear>,
    /// `[D]` to `[D]`: multiplies its output.
    pub after: Box<dyn Linear>,
    /// `[D]` to `[D]`: the input of the convolution.
    pub input: Box<dyn Linear>,
    /// `[D]` to `[D]`.
    pub output: Box<dyn Linear>,
}

/// `output(after(x) * conv(before(x) * input(x)))`, the convolution causal and depthwise (LFM2; HF `Lfm2ShortConv`).
pub struct ShortConv {
    linears: ShortConvLinears,
    taps: Param,
    state: StateId,
}

impl ShortConv {
    /// A convolution with `taps` `[L * D]`, tap after tap; its state, the last `L - 1` input rows, is declared here as
    /// `name`.
    ///
    /// # Errors
    /// [`crate::ModelError::Shape`] if there are not `L * D` taps.
    pub fn new(
        name: &str,
        linears: ShortConvLinears,
        taps: Param,
        length: usize,
        declarations: &mut StateDeclarations,
    ) -> Result<Self> {
        let width = linears.input.out_features();
        taps.expect_len(width * length, "taps of a short convolution")?;
        let shape = vec![length.saturating_sub(1), width];
        let state = declarations.declare(StateSpec::PerSequence { name: name.to_owned(), shape });
        Ok(Self { linears, taps, state })
    }
}

impl SequenceMixer for ShortConv {
    fn forward(&self, x: &Rows, context: &mut TransformContext) -> Result<Rows> {
        let (linears, backend) = (&self.linears, &context.compute.backend);
        let wanted = [&*linears.before, &*linears.after, &*linears.input];
        let [before, after, input] = linear_many(wanted, &LinearInput::new(x), context)?;
        let input = backend.multiply(input, &before)?;
        let mixed = backend.short_conv(&input, &self.taps, self.state, context.state_step())?;
        let mixed = backend.multiply(mixed, &after)?;
        linears.output.forward(&LinearInput::new(&mixed), context)
    }
}

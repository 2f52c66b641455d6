//! [`Mamba2LowRank`]: state space duality over time steps of low rank.

use crate::Result;
use crate::components::{CausalConv, Mamba1Norms, Mamba2Heads};
use crate::context::TransformContext;
use crate::linear::{Linear, linear_many};
use crate::linear_input::LinearInput;
use crate::recurrence::{LinearAttentionInputs, LogDecay};
use crate::rows::Rows;
use crate::state::{StateDeclarations, StateId, StateSpec};
use crate::traits::SequenceMixer;
use menagerie_formulas::{Activation, Gating, LinearAttentionShape};

/// The products of a [`Mamba2LowRank`]. The second to fourth are row ranges of one weight in files.
pub struct Mamba2LowRankLinears {
    /// `[D]` to `[heads * 2 * value_dim]`: head by head the gate, then the input of the state.
    pub input: Box<dyn Linear>,
    /// B, `[heads * value_dim]` to `[key_dim]`.
    pub write: Box<dyn Linear>,
    /// C, `[heads * value_dim]` to `[key_dim]`.
    pub read: Box<dyn Linear>,
    /// `[heads * value_dim]` to the rank of the time steps.
    pub rank: Box<dyn Linear>,
    /// The rank to time steps `[heads]`.
    pub step: Box<dyn Linear>,
    /// `[heads * value_dim]` to `[D]`.
    pub output: Box<dyn Linear>,
}

/// `output(scan(conv(x), softplus(dt), B, C) * silu(gate))`, where B, C and the time steps are computed from the
/// convolved rows, with one time step per head (PLaMo 2).
pub struct Mamba2LowRank {
    linears: Mamba2LowRankLinears,
    convolution: CausalConv,
    heads: Mamba2Heads,
    norms: Option<Mamba1Norms>,
    shape: LinearAttentionShape,
    state: StateId,
}

impl Mamba2LowRank {
    /// A mixer whose state, `[heads, key_dim, value_dim]`, is declared here as `name`.
    ///
    /// # Errors
    /// [`crate::ModelError::Shape`] if the number of the heads' parameters differs from the number of heads.
    pub fn new(
        name: &str,
        shape: LinearAttentionShape,
        (linears, convolution): (Mamba2LowRankLinears, CausalConv),
        heads: Mamba2Heads,
        norms: Option<Mamba1Norms>,
        declarations: &mut StateDeclarations,
    ) -> Result<Self> {
        heads.expect_len(shape.heads)?;
        let state = vec![shape.heads, shape.key_dim, shape.value_dim];
        let state = declarations.declare(StateSpec::PerSequence { name: name.to_owned(), shape: state });
        Ok(Self { linears, convolution, heads, norms, shape, state })
    }
}

impl SequenceMixer for Mamba2LowRank {
    fn forward(&self, x: &Rows, context: &mut TransformContext) -> Result<Rows> {
        let Self { linears, convolution, heads, norms, shape, state } = self;
        let backend = &context.compute.backend;
        let both = linears.input.forward(&LinearInput::new(x), context)?;
        let (rows, dim, inner) = (both.rows(), shape.value_dim, shape.heads * shape.value_dim);
        let both = both.reshape(rows * shape.heads, 2 * dim)?;
        let gate = backend.columns(&both, 0..dim)?.reshape(rows, inner)?;
        let values = backend.columns(&both, dim..2 * dim)?.reshape(rows, inner)?;
        let values = convolution.forward(&values, context)?;
        let wanted = [&*linears.write, &*linears.read, &*linears.rank];
        let [mut write, mut read, mut rank] = linear_many(wanted, &LinearInput::new(&values), context)?;
        if let Some(norms) = norms {
            rank = norms.rank.forward(&rank, context)?;
            write = norms.write.forward(&write, context)?;
            read = norms.read.forward(&read, context)?;
        }
        let step = linears.step.forward(&LinearInput::new(&rank), context)?;
        let [step, log_decay] = heads.rates(step, context)?;
        let inputs = LinearAttentionInputs {
            queries: &read,
            keys: &write,
            values: &values,
            log_decay: LogDecay::Rows(&log_decay),
            strength: Some(&step),
            skip: Some(&heads.skip),
        };
        let mixed = backend.linear_attention(shape, &inputs, *state, context.state_step())?;
        let mixed = backend.gated(gate, &mixed, Gating::Plain(Activation::Silu))?;
        linears.output.forward(&LinearInput::new(&mixed), context)
    }
}

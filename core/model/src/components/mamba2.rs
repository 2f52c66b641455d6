//! [`Mamba2`]: state space duality.

use crate::Result;
use crate::components::{CausalConv, GatedNorm};
use crate::context::TransformContext;
use crate::linear::{Linear, linear_many};
use crate::linear_input::LinearInput;
use crate::param::Param;
use crate::recurrence::{LinearAttentionInputs, LogDecay};
use crate::rows::Rows;
use crate::state::{StateDeclarations, StateId, StateSpec};
use crate::traits::SequenceMixer;
use menagerie_formulas::{Activation, LinearAttentionShape};

/// The products of a [`Mamba2`]. All but the last are row ranges of one weight in files.
pub struct Mamba2Linears {
    /// `[D]` to `[heads * value_dim]`.
    pub gate: Box<dyn Linear>,
    /// `[D]` to `[heads * value_dim]`: the input of the state.
    pub values: Box<dyn Linear>,
    /// B, `[D]` to `[key_heads * key_dim]`: where it is written.
    pub keys: Box<dyn Linear>,
    /// C, `[D]` to `[key_heads * key_dim]`: what reads the state.
    pub queries: Box<dyn Linear>,
    /// `[D]` to `[heads]`: the time step before its bias.
    pub step: Box<dyn Linear>,
    /// `[heads * value_dim]` to `[D]`.
    pub output: Box<dyn Linear>,
}

/// The convolutions of a [`Mamba2`]: channels of one in files.
pub struct Mamba2Convolutions {
    /// Of the input of the state.
    pub values: CausalConv,
    /// Of B.
    pub keys: CausalConv,
    /// Of C.
    pub queries: CausalConv,
}

/// The parameters of a head, `[heads]` each.
pub struct Mamba2Heads {
    /// Added to the time step before softplus.
    pub step_bias: Param,
    /// A, negative: the state decays by `exp(dt A)`.
    pub decay: Param,
    /// D: multiplied by the input and added to the output.
    pub skip: Param,
}

impl Mamba2Heads {
    /// Refuses another number of heads.
    pub(super) fn expect_len(&self, heads: usize) -> Result<()> {
        let Self { step_bias, decay, skip } = self;
        for (values, what) in [(step_bias, "biases of time steps"), (decay, "A"), (skip, "D")] {
            values.expect_len(heads, what)?;
        }
        Ok(())
    }

    /// Time steps and logarithms of decays `[T, heads]`, from the product that computes the time steps.
    pub(super) fn rates(&self, step: Rows, context: &TransformContext) -> Result<[Rows; 2]> {
        let backend = &context.compute.backend;
        let step = backend.activate(backend.add_vector(step, &self.step_bias)?, Activation::Softplus)?;
        let log_decay = backend.multiply_vector(backend.copy(&step)?, &self.decay)?;
        Ok([step, log_decay])
    }
}

/// `output(gated_norm(scan(conv(x), softplus(dt)), gate))` (Dao and Gu, 2024).
pub struct Mamba2 {
    linears: Mamba2Linears,
    convolutions: Mamba2Convolutions,
    heads: Mamba2Heads,
    norm: GatedNorm,
    shape: LinearAttentionShape,
    state: StateId,
}

impl Mamba2 {
    /// A mixer whose state, `[heads, key_dim, value_dim]`, is declared here as `name`.
    ///
    /// # Errors
    /// [`crate::ModelError::Shape`] if the number of the heads' parameters differs from the number of heads.
    pub fn new(
        name: &str,
        shape: LinearAttentionShape,
        (linears, convolutions): (Mamba2Linears, Mamba2Convolutions),
        heads: Mamba2Heads,
        norm: GatedNorm,
        declarations: &mut StateDeclarations,
    ) -> Result<Self> {
        heads.expect_len(shape.heads)?;
        let state = vec![shape.heads, shape.key_dim, shape.value_dim];
        let state = declarations.declare(StateSpec::PerSequence { name: name.to_owned(), shape: state });
        Ok(Self { linears, convolutions, heads, norm, shape, state })
    }
}

impl SequenceMixer for Mamba2 {
    fn forward(&self, x: &Rows, context: &mut TransformContext) -> Result<Rows> {
        let Self { linears, convolutions, heads, norm, shape, state } = self;
        let backend = &context.compute.backend;
        let wanted = [&*linears.gate, &*linears.values, &*linears.keys, &*linears.queries, &*linears.step];
        let [gate, values, keys, queries, step] = linear_many(wanted, &LinearInput::new(x), context)?;
        let values = convolutions.values.forward(&values, context)?;
        let keys = convolutions.keys.forward(&keys, context)?;
        let queries = convolutions.queries.forward(&queries, context)?;
        let [step, log_decay] = heads.rates(step, context)?;
        let inputs = LinearAttentionInputs {
            queries: &queries,
            keys: &keys,
            values: &values,
            log_decay: LogDecay::Rows(&log_decay),
            strength: Some(&step),
            skip: Some(&heads.skip),
        };
        let mixed = backend.linear_attention(shape, &inputs, *state, context.state_step())?;
        drop((queries, keys, values));
        let mixed = norm.forward(mixed, gate, context)?;
        linears.output.forward(&LinearInput::new(&mixed), context)
    }
}

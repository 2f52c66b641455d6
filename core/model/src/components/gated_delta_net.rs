//! [`GatedDeltaNet`]: attention without softmax by the gated delta rule.

use crate::components::{CausalConv, GatedNorm};
use crate::context::TransformContext;
use crate::linear::{Linear, linear_many};
use crate::linear_input::LinearInput;
use crate::param::Param;
use crate::recurrence::{LinearAttentionInputs, LogDecay};
use crate::rows::Rows;
use crate::state::{StateDeclarations, StateId, StateSpec};
use crate::traits::SequenceMixer;
use crate::{ModelError, Result};
use menagerie_formulas::{Activation, LinearAttentionShape};

/// The products of a [`GatedDeltaNet`].
pub struct DeltaNetLinears {
    /// `[D]` to `[key_heads * key_dim]`.
    pub queries: Box<dyn Linear>,
    /// `[D]` to `[key_heads * key_dim]`.
    pub keys: Box<dyn Linear>,
    /// `[D]` to `[heads * value_dim]`.
    pub values: Box<dyn Linear>,
    /// `[D]` to `[heads * value_dim]`.
    pub gate: Box<dyn Linear>,
    /// Strengths and decays.
    pub rates: DeltaNetRates,
    /// `[heads * value_dim]` to `[D]`.
    pub output: Box<dyn Linear>,
}

/// How strongly a row writes and how fast the state decays, before their activations.
pub enum DeltaNetRates {
    /// Separate products, `[D]` to `[heads]`.
    Apart {
        /// The strength.
        strength: Box<dyn Linear>,
        /// The decay, or `[D]` to `[heads * key_dim]`: one for each element of a key (Kimi Linear).
        decay: Box<dyn Linear>,
    },
    /// One product whose rows are, key head by key head, the strengths of the heads that share it, then their decays
    /// (Qwen3-Next).
    ByKeyHead(Box<dyn Linear>),
}

/// The convolutions of a [`GatedDeltaNet`]: channels of one in files.
pub struct DeltaNetConvolutions {
    /// Of queries.
    pub queries: CausalConv,
    /// Of keys.
    pub keys: CausalConv,
    /// Of values.
    pub values: CausalConv,
}

/// The parameters of a head, as many as there are decays.
pub struct DeltaNetHeads {
    /// Added to the decay before softplus.
    pub decay_bias: Param,
    /// Negative: the state decays by `exp(decay * softplus(..))`.
    pub decay: Param,
}

/// `output(norm(delta(q / |q|, k / |k|, v)) * silu(gate))` with q, k and v convolved (Yang et al., 2024; HF
/// `Qwen3NextGatedDeltaNet`).
pub struct GatedDeltaNet {
    linears: DeltaNetLinears,
    convolutions: DeltaNetConvolutions,
    heads: DeltaNetHeads,
    norm: GatedNorm,
    /// Added to the square of a length before its root.
    length_eps: f32,
    shape: LinearAttentionShape,
    state: StateId,
}

impl GatedDeltaNet {
    /// A mixer whose state, `[heads, key_dim, value_dim]`, is declared here as `name`; queries and keys are divided by
    /// `sqrt(their square + length_eps)`.
    ///
    /// # Errors
    /// [`ModelError::Shape`] if the number of the heads' parameters differs from the number of decays, or key heads do
    /// not divide the heads.
    pub fn new(
        name: &str,
        (shape, length_eps): (LinearAttentionShape, f32),
        (linears, convolutions): (DeltaNetLinears, DeltaNetConvolutions),
        heads: DeltaNetHeads,
        norm: GatedNorm,
        declarations: &mut StateDeclarations,
    ) -> Result<Self> {
        let decays = match &linears.rates {
            DeltaNetRates::Apart { decay, .. } => decay.out_features(),
            DeltaNetRates::ByKeyHead(_) => shape.heads,
        };
        heads.decay_bias.expect_len(decays, "biases of decays")?;
        heads.decay.expect_len(decays, "decays")?;
        if shape.key_heads == 0 || !shape.heads.is_multiple_of(shape.key_heads) {
            return Err(ModelError::Shape {
                what: "key heads of a delta net".to_owned(),
                expected: format!("a divisor of {} heads", shape.heads),
                found: shape.key_heads.to_string(),
            });
        }
        let state = vec![shape.heads, shape.key_dim, shape.value_dim];
        let state = declarations.declare(StateSpec::PerSequence { name: name.to_owned(), shape: state });
        Ok(Self { linears, convolutions, heads, norm, length_eps, shape, state })
    }

    /// Strengths `[T, heads]` and decays, before their activations.
    fn rates(&self, x: &LinearInput, context: &TransformContext) -> Result<[Rows; 2]> {
        let LinearAttentionShape { heads, key_heads, .. } = self.shape;
        match &self.linears.rates {
            DeltaNetRates::Apart { strength, decay } => linear_many([&**strength, &**decay], x, context),
            DeltaNetRates::ByKeyHead(both) => {
                let both = both.forward(x, context)?;
                let (rows, each) = (both.rows(), heads / key_heads);
                let both = both.reshape(rows * key_heads, 2 * each)?;
                let backend = &context.compute.backend;
                let strength = backend.columns(&both, 0..each)?.reshape(rows, heads)?;
                Ok([strength, backend.columns(&both, each..2 * each)?.reshape(rows, heads)?])
            }
        }
    }

    /// Every head of `x` divided by its length and multiplied by `factor`.
    fn of_length(&self, x: Rows, factor: f32, context: &TransformContext) -> Result<Rows> {
        let (rows, columns, dim) = (x.rows(), x.cols(), self.shape.key_dim);
        let backend = &context.compute.backend;
        let heads = x.reshape(rows * self.shape.key_heads, dim)?;
        // The mean of squares is the square of the length over `dim`.
        let dim = dim as f32;
        let normed = backend.rms_norm(&heads, None, self.length_eps / dim)?;
        backend.scale(normed, factor / dim.sqrt())?.reshape(rows, columns)
    }
}

impl SequenceMixer for GatedDeltaNet {
    fn forward(&self, x: &Rows, context: &mut TransformContext) -> Result<Rows> {
        let Self { linears, convolutions, heads, norm, shape, state, .. } = self;
        let backend = &context.compute.backend;
        let wanted = [&*linears.queries, &*linears.keys, &*linears.values, &*linears.gate];
        let x = LinearInput::new(x);
        let [queries, keys, values, gate] = linear_many(wanted, &x, context)?;
        let [strength, decay] = self.rates(&x, context)?;
        let queries = convolutions.queries.forward(&queries, context)?;
        let keys = convolutions.keys.forward(&keys, context)?;
        let values = convolutions.values.forward(&values, context)?;
        let queries = self.of_length(queries, 1.0 / (shape.key_dim as f32).sqrt(), context)?;
        let keys = self.of_length(keys, 1.0, context)?;
        let strength = backend.activate(strength, Activation::Sigmoid)?;
        let decay = backend.activate(backend.add_vector(decay, &heads.decay_bias)?, Activation::Softplus)?;
        let log_decay = backend.multiply_vector(decay, &heads.decay)?;
        let inputs = LinearAttentionInputs {
            queries: &queries,
            keys: &keys,
            values: &values,
            log_decay: LogDecay::Rows(&log_decay),
            strength: Some(&strength),
            skip: None,
        };
        let mixed = backend.linear_attention(shape, &inputs, *state, context.state_step())?;
        drop((queries, keys, values));
        let mixed = norm.forward(mixed, gate, context)?;
        linears.output.forward(&LinearInput::new(&mixed), context)
    }
}

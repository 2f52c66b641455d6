//! [`LatentAttention`]: attention over a cache of latents.

use crate::Result;
use crate::backend::AttentionStates;
use crate::components::latent_linears::{LatentLinears, LatentSizes};
use crate::components::rope::DeclaredRope;
use crate::components::{Rope, RopeDeclarations, Temperature};
use crate::context::TransformContext;
use crate::linear::linear_many;
use crate::linear_input::LinearInput;
use crate::rows::Rows;
use crate::state::{StateDeclarations, StateId, StateSpec};
use crate::traits::{Norm, SequenceMixer};
use menagerie_formulas::{AttentionShape, Mask};

/// Multi-head latent attention (DeepSeek-AI, 2024): keys and values of all heads are products of one latent per token.
/// Only the latent is kept, and one rotated part of the keys that the heads share.
///
/// Queries are multiplied with the products of the keys and attend to the latents themselves (*absorbed*), in a prompt
/// as in the tokens after it. Computing keys and values from the latents of a prompt would cost less for each pair of
/// tokens, but sum in another order: a row's result would then depend on how many rows come with it.
pub struct LatentAttention {
    linears: LatentLinears,
    sizes: LatentSizes,
    latent_norm: Box<dyn Norm>,
    state: StateId,
    rope: Option<DeclaredRope>,
    /// Multiplies queries by a factor that grows with the position.
    pub temperature: Option<Temperature>,
}

/// The queries and latents of the tokens of a step.
struct LatentStep {
    /// `[T * heads, plain]`.
    query: Rows,
    /// `[T * heads, rotated]`.
    rotated: Rows,
}

impl LatentAttention {
    /// A latent attention without positions; its state is declared here under this name (`blk.3.latent`).
    ///
    /// # Errors
    /// [`crate::ModelError::Shape`] if a linear does not fit the sizes.
    pub fn new(
        name: &str,
        linears: LatentLinears,
        sizes: LatentSizes,
        latent_norm: Box<dyn Norm>,
        declarations: &mut StateDeclarations,
    ) -> Result<Self> {
        linears.check(&sizes)?;
        let state = declarations.declare(StateSpec::PerToken {
            name: name.to_owned(),
            dtype: None,
            heads: 1,
            head_dim: sizes.latent + sizes.rotated,
            window: None,
        });
        Ok(Self { linears, sizes, latent_norm, state, rope: None, temperature: None })
    }

    /// Rotates the separate part of queries and keys; equal ropes of a model share their tables.
    pub fn with_rope(mut self, rope: Rope, declarations: &mut RopeDeclarations) -> Self {
        self.rope = Some(declarations.declare(rope));
        self
    }

    /// Computes queries of the step, and stores its latents and rotated keys.
    fn begin(&self, x: &Rows, context: &mut TransformContext) -> Result<LatentStep> {
        let (linears, sizes) = (&self.linears, &self.sizes);
        let backend = &context.compute.backend;
        let x = LinearInput::new(x);
        let [first, latent, mut key] =
            linear_many([linears.first_query(), &*linears.latent, &*linears.rotated_key], &x, context)?;
        let latent = self.latent_norm.forward(&latent, context)?;
        let mut query = linears.query(first, context)?;
        if let Some(temperature) = &self.temperature {
            let factors = temperature.factors(context.layout.positions().only_axis()?);
            if let Some(factors) = factors {
                query = backend.scale_rows(query, &factors)?;
            }
        }
        let rows = query.rows();
        let heads = query.reshape(rows * sizes.heads, sizes.plain + sizes.rotated)?;
        let [query, mut rotated] = backend.split(&heads, [sizes.plain, sizes.rotated])?;
        drop(heads);
        if let Some(rope) = &self.rope {
            let tables = rope.tables(context)?;
            rotated = rotated.reshape(rows, sizes.heads * sizes.rotated)?;
            rotated = rope.rotate(rotated, &tables, sizes.rotated, context)?;
            rotated = rotated.reshape(rows * sizes.heads, sizes.rotated)?;
            key = rope.rotate(key, &tables, sizes.rotated, context)?;
        }
        let stored = backend.join([&latent, &key])?;
        backend.store(self.state, &stored, context.state_step())?;
        Ok(LatentStep { query, rotated })
    }

    /// Queries of a step against latents: `[T, heads * value]`.
    fn attend(&self, step: &LatentStep, context: &mut TransformContext) -> Result<Rows> {
        let LatentSizes { heads, rotated, value, latent, scale, .. } = self.sizes;
        let rows = context.layout.rows();
        let query = self.linears.absorb_key(&step.query, heads, context)?;
        let backend = &context.compute.backend;
        let query = backend.join([&query, &step.rotated])?.reshape(rows, heads * (latent + rotated))?;
        let shape = AttentionShape {
            heads,
            kv_heads: 1,
            key_dim: latent + rotated,
            value_dim: latent,
            scale,
            softcap: None,
            mask: Mask::Causal,
            alibi: None,
        };
        let states = AttentionStates { keys: self.state, values: self.state };
        let mixed = backend.attend_stored(&shape, states, &query, None, context.state_step())?;
        let mixed = mixed.reshape(rows * heads, latent)?;
        self.linears.absorb_value(&mixed, heads, context)?.reshape(rows, heads * value)
    }
}

impl SequenceMixer for LatentAttention {
    fn forward(&self, x: &Rows, context: &mut TransformContext) -> Result<Rows> {
        let step = self.begin(x, context)?;
        let mixed = self.attend(&step, context)?;
        drop(step);
        self.linears.output.forward(&LinearInput::new(&mixed), context)
    }
}

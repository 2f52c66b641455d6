//! [`LatentAttention`]: attention over a cache of latents.

use crate::Result;
use crate::activated::Activated;
use crate::attention_shape::{AttentionShape, Mask};
use crate::backend::{AttentionStates, StateStep};
use crate::components::latent_linears::{LatentLinears, LatentSizes};
use crate::components::rope::DeclaredRope;
use crate::components::{Rope, RopeDeclarations, Temperature};
use crate::context::TransformContext;
use crate::layout::{SequenceLayout, SequenceRows};
use crate::linear::linear_many;
use crate::rows::Rows;
use crate::state::{StateDeclarations, StateId, StateSpec};
use crate::traits::{Norm, SequenceMixer};

/// Most elements of keys and values that are made out of latents at once; beyond it queries go to the latents.
const MOST_EXPANDED: usize = 1 << 26;

/// Multi-head latent attention (DeepSeek-AI, 2024): keys and values of all heads are products of one latent per token, which is
/// all that is kept, beside one rotated part of the keys that the heads share.
///
/// Queries of few tokens are multiplied with the products of the keys and attend to the latents themselves (*absorbed*); for
/// many, keys and values are made out of the latents (*expanded*), which costs less per pair of tokens. Both are the same
/// sums in another order. Which is taken depends on the rows of the sequence and on nothing else.
pub struct LatentAttention {
    linears: LatentLinears,
    sizes: LatentSizes,
    latent_norm: Box<dyn Norm>,
    state: StateId,
    rope: Option<DeclaredRope>,
    temperature: Option<Temperature>,
}

/// What the tokens of a step ask and give.
struct Step {
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

    /// Multiplies queries by a factor that grows with the position.
    pub fn with_temperature(mut self, temperature: Temperature) -> Self {
        self.temperature = Some(temperature);
        self
    }

    /// Queries of the step, and its latents and rotated keys stored.
    fn begin(&self, x: &Rows, context: &mut TransformContext) -> Result<Step> {
        let (linears, sizes) = (&self.linears, &self.sizes);
        let backend = &context.compute.backend;
        let x = Activated::new(x);
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
        Ok(Step { query, rotated })
    }

    /// Whether keys and values of all tokens of a sequence are worth making for the rows of this step.
    fn expands(&self, part: &SequenceRows) -> bool {
        let LatentSizes { heads, plain, rotated, value, latent, .. } = self.sizes;
        let (rows, before) = (part.rows.len(), part.first_position);
        let room = (before + rows).saturating_mul(heads * (plain + rotated + value)) <= MOST_EXPANDED;
        // Multiplications that a pair of tokens saves, and that a token of the past costs, both per head.
        let saved = (2 * latent + rotated).saturating_sub(plain + rotated + value);
        let costs = before.saturating_mul(latent * (plain + value));
        rows > 1 && room && costs <= rows.saturating_mul(before + rows / 2).saturating_mul(saved)
    }

    /// Queries of a step against latents: `[T, heads * value]`.
    fn absorbed(
        &self,
        step: &Step,
        origin: &[u32],
        layout: &SequenceLayout,
        context: &mut TransformContext,
    ) -> Result<Rows> {
        let LatentSizes { heads, rotated, value, latent, scale, .. } = self.sizes;
        let query = self.linears.absorb_key(&step.query, heads, origin, context)?;
        let backend = &context.compute.backend;
        let query = backend.join([&query, &step.rotated])?;
        let query = query.reshape(origin.len(), heads * (latent + rotated))?;
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
        let state_step = StateStep { layout, states: context.states };
        let mixed = backend.attend_stored(&shape, states, &query, None, state_step)?;
        let mixed = mixed.reshape(origin.len() * heads, latent)?;
        let mixed = self.linears.absorb_value(&mixed, heads, origin, context)?;
        mixed.reshape(origin.len(), heads * value)
    }

    /// Queries of one sequence against keys and values made out of its latents: `[rows, heads * value]`.
    fn expanded(&self, step: &Step, part: &SequenceRows, context: &mut TransformContext) -> Result<Rows> {
        let LatentSizes { heads, plain, rotated, value, latent, scale } = self.sizes;
        let backend = &context.compute.backend;
        let total = part.first_position + part.rows.len();
        let stored = backend.stored(self.state, part.sequence, 0..total, context.states)?;
        let [latents, shared] = backend.split(&stored, [latent, rotated])?;
        drop(stored);
        let origin = vec![part.rows.start as u32; total];
        let [keys, values] = self.linears.expand(&latents, &self.sizes, &origin, context)?;
        let of_every_head: Vec<u32> = (0..total * heads).map(|row| (row / heads) as u32).collect();
        let shared = backend.select(&shared, &of_every_head)?;
        let keys = backend.join([&keys, &shared])?.reshape(total, heads * (plain + rotated))?;
        drop(shared);
        let query = backend.join([&step.query, &step.rotated])?;
        let query = query.reshape(part.rows.len(), heads * (plain + rotated))?;
        let shape = AttentionShape {
            heads,
            kv_heads: heads,
            key_dim: plain + rotated,
            value_dim: value,
            scale,
            softcap: None,
            mask: Mask::Causal,
            alibi: None,
        };
        backend.attend_given(&shape, [&query, &keys, &values])
    }

    /// The heads of some rows of a step.
    fn select(&self, step: &Step, rows: &[u32], context: &TransformContext) -> Result<Step> {
        let heads = self.sizes.heads as u32;
        let of_heads: Vec<u32> =
            rows.iter().flat_map(|row| (0..heads).map(move |head| row * heads + head)).collect();
        let backend = &context.compute.backend;
        Ok(Step {
            query: backend.select(&step.query, &of_heads)?,
            rotated: backend.select(&step.rotated, &of_heads)?,
        })
    }

    /// Sequences that expand and sequences that do not, in one step.
    fn mixed(&self, step: &Step, context: &mut TransformContext) -> Result<Rows> {
        let (mut pieces, mut order): (Vec<Rows>, Vec<u32>) = (Vec::new(), Vec::new());
        let few = context.layout.only(|part| !self.expands(part))?;
        if let Some((layout, rows)) = few {
            let own = self.select(step, &rows, context)?;
            pieces.push(self.absorbed(&own, &rows, &layout, context)?);
            order.extend(rows);
        }
        for part in context.layout.sequences().iter().filter(|part| self.expands(part)) {
            let rows: Vec<u32> = part.rows.clone().map(|row| row as u32).collect();
            let own = self.select(step, &rows, context)?;
            pieces.push(self.expanded(&own, part, context)?);
            order.extend(rows);
        }
        let backend = &context.compute.backend;
        let width = self.sizes.heads * self.sizes.value;
        let flat = pieces.into_iter().map(|piece| {
            let elements = piece.rows() * piece.cols();
            piece.reshape(1, elements)
        });
        let mut together: Option<Rows> = None;
        for piece in flat {
            let piece = piece?;
            together = Some(match together {
                Some(before) => backend.join([&before, &piece])?,
                None => piece,
            });
        }
        let all = match together {
            Some(rows) => rows.reshape(order.len(), width)?,
            None => backend.upload(Vec::new(), width)?,
        };
        let mut back = vec![0u32; order.len()];
        for (place, row) in order.iter().enumerate() {
            back[*row as usize] = place as u32;
        }
        backend.select(&all, &back)
    }
}

impl SequenceMixer for LatentAttention {
    fn forward(&self, x: &Rows, context: &mut TransformContext) -> Result<Rows> {
        let step = self.begin(x, context)?;
        let layout = context.layout;
        let expanding = layout.sequences().iter().filter(|part| self.expands(part)).count();
        let mixed = match (expanding, layout.sequences()) {
            (0, _) => {
                let origin: Vec<u32> = (0..layout.rows() as u32).collect();
                self.absorbed(&step, &origin, layout, context)?
            }
            (1, [only]) => self.expanded(&step, only, context)?,
            _ => self.mixed(&step, context)?,
        };
        drop(step);
        self.linears.output.forward(&Activated::new(&mixed), context)
    }
}

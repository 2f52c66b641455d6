//! [`LatentLinears`]: the products of a latent attention.

use crate::activated::Activated;
use crate::context::TransformContext;
use crate::experts::{ExpertLinear, ExpertPlan, Packing};
use crate::linear::{Linear, linear_many};
use crate::param::WeightShape;
use crate::router::Routing;
use crate::rows::Rows;
use crate::traits::Norm;
use crate::{ModelError, Result};

/// Sizes of a latent attention.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LatentSizes {
    /// Heads.
    pub heads: usize,
    /// Elements of a key head that come out of the latent.
    pub plain: usize,
    /// Elements of a key head that carry positions; all heads of keys share them.
    pub rotated: usize,
    /// Elements of a value head.
    pub value: usize,
    /// Elements of the latent.
    pub latent: usize,
    /// Multiplies the dot products.
    pub scale: f32,
}

/// Queries by way of a latent of their own.
pub struct QueryLatent {
    /// `[D]` to the latent.
    pub down: Box<dyn Linear>,
    /// Norm on the latent.
    pub norm: Box<dyn Norm>,
}

/// Products that make keys and values out of latents.
pub enum Expansion {
    /// Of weights of their own.
    Apart {
        /// `[latent]` to `[heads * plain]`.
        keys: Box<dyn Linear>,
        /// `[latent]` to `[heads * value]`.
        values: Box<dyn Linear>,
    },
    /// Of one weight, `[latent]` to `[heads * (plain + value)]`: for each head its key, then its value.
    Together(Box<dyn Linear>),
}

/// The products of a latent attention. Those that are absorbed and those that expand are the same numbers.
pub struct LatentLinears {
    /// `[D]`, or the latent of queries, to `[heads * (plain + rotated)]`.
    pub query: Box<dyn Linear>,
    /// The latent of queries, where they have one.
    pub query_latent: Option<QueryLatent>,
    /// `[D]` to `[latent]`.
    pub latent: Box<dyn Linear>,
    /// `[D]` to `[rotated]`.
    pub rotated_key: Box<dyn Linear>,
    /// For each head `[plain]` to `[latent]`: a query as latents see it.
    pub absorb_key: Box<dyn ExpertLinear>,
    /// For each head `[latent]` to `[value]`: a mixed latent as the head's value.
    pub absorb_value: Box<dyn ExpertLinear>,
    /// Keys and values out of latents.
    pub expansion: Expansion,
    /// `[heads * value]` to `[D]`.
    pub output: Box<dyn Linear>,
}

impl LatentLinears {
    /// Refuses products of other sizes.
    ///
    /// # Errors
    /// [`ModelError::Shape`].
    pub(super) fn check(&self, sizes: &LatentSizes) -> Result<()> {
        let LatentSizes { heads, plain, rotated, value, latent, scale: _ } = *sizes;
        expect("rows of the query product", heads * (plain + rotated), self.query.out_features())?;
        expect("rows of the latent product", latent, self.latent.out_features())?;
        expect("rows of the rotated key product", rotated, self.rotated_key.out_features())?;
        expect("columns of the output product", heads * value, self.output.in_features())?;
        let expanded = match &self.expansion {
            Expansion::Apart { keys, values } => keys.out_features() + values.out_features(),
            Expansion::Together(both) => both.out_features(),
        };
        expect("rows of the products of latents", heads * (plain + value), expanded)?;
        let stacks = [
            ("keys", &self.absorb_key, WeightShape { count: heads, rows: latent, cols: plain }),
            ("values", &self.absorb_value, WeightShape { count: heads, rows: value, cols: latent }),
        ];
        for (what, stack, wanted) in stacks {
            if stack.shape() != wanted {
                return Err(ModelError::Shape {
                    what: format!("latent attention: absorbed products of the {what}"),
                    expected: format!("{wanted:?}"),
                    found: format!("{:?}", stack.shape()),
                });
            }
        }
        Ok(())
    }

    /// The product of the input that queries begin with.
    pub(super) fn first_query(&self) -> &dyn Linear {
        self.query_latent.as_ref().map_or(&*self.query, |latent| &*latent.down)
    }

    /// Queries `[T, heads * (plain + rotated)]` of what [`Self::first_query`] gave.
    pub(super) fn query(&self, first: Rows, context: &TransformContext) -> Result<Rows> {
        let Some(latent) = &self.query_latent else { return Ok(first) };
        let normed = latent.norm.forward(&first, context)?;
        drop(first);
        self.query.forward(&Activated::new(&normed), context)
    }

    /// Queries `[T * heads, plain]` as latents see them, `[T * heads, latent]`; `origin` names the step's row of each of T.
    pub(super) fn absorb_key(
        &self,
        query: &Rows,
        heads: usize,
        origin: &[u32],
        context: &TransformContext,
    ) -> Result<Rows> {
        by_head(&*self.absorb_key, query, heads, origin, context)
    }

    /// Mixed latents `[T * heads, latent]` as values, `[T * heads, value]`; `origin` names the step's row of each of T.
    pub(super) fn absorb_value(
        &self,
        mixed: &Rows,
        heads: usize,
        origin: &[u32],
        context: &TransformContext,
    ) -> Result<Rows> {
        by_head(&*self.absorb_value, mixed, heads, origin, context)
    }

    /// Keys `[T * heads, plain]` and values `[T, heads * value]` out of latents `[T, latent]`.
    pub(super) fn expand(
        &self,
        latents: &Rows,
        sizes: &LatentSizes,
        origin: &[u32],
        context: &TransformContext,
    ) -> Result<[Rows; 2]> {
        let (rows, LatentSizes { heads, plain, value, .. }) = (latents.rows(), *sizes);
        let latents = Activated::selected(latents, origin)?;
        match &self.expansion {
            Expansion::Apart { keys, values } => {
                let [keys, values] = linear_many([&**keys, &**values], &latents, context)?;
                Ok([keys.reshape(rows * heads, plain)?, values])
            }
            Expansion::Together(both) => {
                let both = both.forward(&latents, context)?.reshape(rows * heads, plain + value)?;
                let [keys, values] = context.compute.backend.split(&both, [plain, value])?;
                Ok([keys, values.reshape(rows, heads * value)?])
            }
        }
    }
}

/// Each head's own product with its rows of `x` `[T * heads, in]`, `[T * heads, out]`.
fn by_head(
    stack: &dyn ExpertLinear,
    x: &Rows,
    heads: usize,
    origin: &[u32],
    context: &TransformContext,
) -> Result<Rows> {
    let (tokens, backend) = (origin.len(), &context.compute.backend);
    let experts = (0..tokens * heads).map(|row| (row % heads) as u32).collect();
    let routing = Routing { top_k: heads, experts, weights: vec![1.0; tokens * heads] };
    let plan = ExpertPlan::new(&routing, heads)?;
    if tokens == 1 {
        let origin = vec![origin[0]; heads];
        return stack.forward(&Activated::selected(x, &origin)?, &plan, Packing::Packed, context);
    }
    // Head after head, tokens in order, as the plan has them.
    let packed: Vec<u32> =
        (0..heads).flat_map(|head| (0..tokens).map(move |token| (token * heads + head) as u32)).collect();
    let origin: Vec<u32> = plan.tokens().iter().map(|token| origin[*token as usize]).collect();
    let x = backend.select(x, &packed)?;
    let made = stack.forward(&Activated::selected(&x, &origin)?, &plan, Packing::Packed, context)?;
    drop(x);
    backend.select(&made, plan.slots())
}

fn expect(what: &str, expected: usize, found: usize) -> Result<()> {
    if expected == found {
        return Ok(());
    }
    Err(ModelError::Shape {
        what: format!("latent attention: {what}"),
        expected: expected.to_string(),
        found: found.to_string(),
    })
}

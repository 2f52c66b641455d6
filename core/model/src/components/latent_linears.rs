//! [`LatentLinears`]: the products of a latent attention.

use crate::context::TransformContext;
use crate::expert_plan::{ExpertPlan, Packing};
use crate::experts::ExpertLinear;
use crate::linear::Linear;
use crate::linear_input::LinearInput;
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
    /// Elements of a key head that are computed from the latent.
    pub plain: usize,
    /// Elements of a key head that have positions; all key heads share them.
    pub rotated: usize,
    /// Elements of a value head.
    pub value: usize,
    /// Elements of the latent.
    pub latent: usize,
    /// Multiplies the dot products.
    pub scale: f32,
}

/// Queries through a latent of their own.
pub struct QueryLatent {
    /// `[D]` to the latent.
    pub down: Box<dyn Linear>,
    /// Norm on the latent.
    pub norm: Box<dyn Norm>,
}

/// The products of a latent attention.
pub struct LatentLinears {
    /// `[D]`, or the latent of queries, to `[heads * (plain + rotated)]`.
    pub query: Box<dyn Linear>,
    /// The latent of queries, if they have one.
    pub query_latent: Option<QueryLatent>,
    /// `[D]` to `[latent]`.
    pub latent: Box<dyn Linear>,
    /// `[D]` to `[rotated]`.
    pub rotated_key: Box<dyn Linear>,
    /// For each head `[plain]` to `[latent]`: a query in the space of latents.
    pub absorb_key: Box<dyn ExpertLinear>,
    /// For each head `[latent]` to `[value]`: a mixed latent as the head's value.
    pub absorb_value: Box<dyn ExpertLinear>,
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

    /// The first product of queries.
    pub(super) fn first_query(&self) -> &dyn Linear {
        self.query_latent.as_ref().map_or(&*self.query, |latent| &*latent.down)
    }

    /// Queries `[T, heads * (plain + rotated)]` from the result of [`Self::first_query`].
    pub(super) fn query(&self, first: Rows, context: &TransformContext) -> Result<Rows> {
        let Some(latent) = &self.query_latent else { return Ok(first) };
        let normed = latent.norm.forward(&first, context)?;
        drop(first);
        self.query.forward(&LinearInput::new(&normed), context)
    }

    /// Queries `[T * heads, plain]` in the space of latents, `[T * heads, latent]`.
    pub(super) fn absorb_key(&self, query: &Rows, heads: usize, context: &TransformContext) -> Result<Rows> {
        by_head(&*self.absorb_key, query, heads, context)
    }

    /// Mixed latents `[T * heads, latent]` as values, `[T * heads, value]`.
    pub(super) fn absorb_value(
        &self,
        mixed: &Rows,
        heads: usize,
        context: &TransformContext,
    ) -> Result<Rows> {
        by_head(&*self.absorb_value, mixed, heads, context)
    }
}

/// Each head's own product with its rows of `x` `[T * heads, in]`, `[T * heads, out]`.
fn by_head(stack: &dyn ExpertLinear, x: &Rows, heads: usize, context: &TransformContext) -> Result<Rows> {
    let (tokens, backend) = (x.rows() / heads.max(1), &context.compute.backend);
    let experts = (0..tokens * heads).map(|row| (row % heads) as u32).collect();
    let routing = Routing { top_k: heads, experts, weights: vec![1.0; tokens * heads] };
    let plan = ExpertPlan::new(&routing, heads)?;
    if tokens == 1 {
        return stack.forward(&LinearInput::selected(x, &vec![0; heads])?, &plan, Packing::Packed, context);
    }
    // Head after head, tokens in order, as in the plan.
    let packed: Vec<u32> =
        (0..heads).flat_map(|head| (0..tokens).map(move |token| (token * heads + head) as u32)).collect();
    let x = backend.select(x, &packed)?;
    let made = stack.forward(&LinearInput::selected(&x, plan.tokens())?, &plan, Packing::Packed, context)?;
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

//! [`AdaptedExperts`]: a stack of experts that adapter sets add to.

use super::row_selection::{RowSelection, factors};
use crate::Result;
use crate::backend::Product;
use crate::backend::exactly;
use crate::context::TransformContext;
use crate::expert_plan::{ExpertPlan, Packing};
use crate::experts::ExpertLinear;
use crate::linear_input::LinearInput;
use crate::low_rank::LowRank;
use crate::param::WeightShape;
use crate::rows::Rows;
use crate::terms::RankFactors;

/// A stack and its number.
pub(super) struct AdaptedExperts {
    inner: Box<dyn ExpertLinear>,
    site: usize,
}

impl AdaptedExperts {
    pub(super) fn new(inner: Box<dyn ExpertLinear>, site: usize) -> Self {
        Self { inner, site }
    }
}

/// Multiplies with a stack of its own.
fn product(
    weight: &crate::Param,
    x: &LinearInput,
    (plan, packing): (&ExpertPlan, Packing),
    context: &TransformContext,
) -> Result<Rows> {
    let compute = context.compute;
    let stack = Product { weight, bias: None };
    context.reads_some(weight, plan.groups().len(), weight.shape().count);
    let made = compute.backend.expert_products(&[stack], x, plan, packing, compute.arithmetic)?;
    let [rows] = exactly(made)?;
    Ok(rows)
}

impl ExpertLinear for AdaptedExperts {
    fn shape(&self) -> WeightShape {
        self.inner.shape()
    }

    fn forward(
        &self,
        x: &LinearInput,
        plan: &ExpertPlan,
        packing: Packing,
        context: &TransformContext,
    ) -> Result<Rows> {
        let product = self.inner.forward(x, plan, packing, context)?;
        self.adapt(product, x, (plan, packing), context)
    }

    fn plain(&self) -> Option<Product<'_>> {
        self.inner.plain()
    }

    fn adapt(
        &self,
        product: Rows,
        x: &LinearInput,
        packed: (&ExpertPlan, Packing),
        context: &TransformContext,
    ) -> Result<Rows> {
        let (mut y, (plan, packing)) = (product, packed);
        let origin =
            |row: usize| plan.input_rows(packing).get(row).map_or(row, |row| x.origin(*row as usize));
        for (index, set) in context.adapters.iter().enumerate().filter(|(_, set)| set.acts_at(self.site)) {
            let Some(chosen) = RowSelection::of(index, plan.packed_rows(), origin, context) else { continue };
            for (at, member) in set.members().iter().enumerate() {
                let Some(low_rank) = member.adapter.experts(self.site) else { continue };
                let constant = member.weight * low_rank.scaling;
                let origins = (0..plan.packed_rows()).map(origin);
                let factors = factors(set, (at, self.site), constant, origins, context);
                y = add(y, low_rank, x, packed, only(factors, &chosen, plan.packed_rows()), context)?;
            }
        }
        Ok(y)
    }
}

/// Factors of the packed rows of one set: zero for those of others.
fn only(factors: RankFactors, chosen: &RowSelection, rows: usize) -> RankFactors {
    let RowSelection::Some(chosen) = chosen else { return factors };
    let mut each = vec![0.0; rows];
    for row in chosen.iter().map(|row| *row as usize) {
        each[row] = match &factors {
            RankFactors::One(factor) => *factor,
            RankFactors::Each(all) => all[row],
        };
    }
    RankFactors::Each(each)
}

/// `y` and the low-rank products of the experts.
fn add(
    y: Rows,
    low_rank: &LowRank,
    x: &LinearInput,
    packed: (&ExpertPlan, Packing),
    factors: RankFactors,
    context: &TransformContext,
) -> Result<Rows> {
    let rank = factors.multiply(product(&low_rank.a, x, packed, context)?, context)?;
    let up = product(&low_rank.b, &LinearInput::new(&rank), (packed.0, Packing::Packed), context)?;
    context.compute.backend.add(y, &up)
}

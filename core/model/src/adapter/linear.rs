//! [`AdaptedLinear`]: a linear that adapter sets add to.

use super::row_selection::{RowSelection, factors};
use crate::Result;
use crate::adapter_set::{AdapterSet, Member};
use crate::adapter_set::{FullWeight, LinearPart};
use crate::backend::{Product, exactly};
use crate::context::TransformContext;
use crate::linear::Linear;
use crate::linear_input::{LinearInput, RowOrigins};
use crate::rows::Rows;
use crate::terms::{AfterProduct, LowRankTerm, Terms, sums};

/// A linear and its number.
pub(super) struct AdaptedLinear {
    inner: Box<dyn Linear>,
    site: usize,
}

/// The part that adapters add to a product in one step.
enum AdapterTerms<'a> {
    /// Low-rank products.
    LowRank(Vec<LowRankTerm<'a>>),
    /// Other operations too: biases, magnitudes, whole weights.
    Other,
}

impl AdaptedLinear {
    pub(super) fn new(inner: Box<dyn Linear>, site: usize) -> Self {
        Self { inner, site }
    }

    /// The terms that the adapters of the step add to the product of these rows.
    fn added<'a>(&'a self, rows: RowOrigins, context: &'a TransformContext) -> AdapterTerms<'a> {
        let count = rows.rows();
        let mut terms = Vec::new();
        for (index, set) in context.adapters.iter().enumerate().filter(|(_, set)| set.acts_at(self.site)) {
            for (at, member) in set.members().iter().enumerate() {
                let Some(part) = member.adapter.linear(self.site) else { continue };
                let LinearPart { low_rank: Some(pair), bias: None, magnitude: None, whole: None } = part
                else {
                    return AdapterTerms::Other;
                };
                let Some(chosen) = RowSelection::of(index, count, |row| rows.origin(row), context) else {
                    continue;
                };
                let origins = chosen.rows(count).map(|row| rows.origin(row));
                let constant = member.weight * pair.scaling;
                let factors = factors(set, (at, self.site), constant, origins, context);
                terms.push(LowRankTerm { pair, factors, rows: chosen.picked() });
            }
        }
        AdapterTerms::LowRank(terms)
    }

    /// The product of rows of one set, with the terms of its adapters.
    fn adapt_rows(
        &self,
        mut y: Rows,
        x: &LinearInput,
        set: &AdapterSet,
        chosen: &RowSelection,
        context: &TransformContext,
    ) -> Result<Rows> {
        let compute = context.compute;
        let (selected, own);
        let inputs = match chosen {
            RowSelection::All => x,
            RowSelection::Some(rows) => {
                selected = compute.backend.select(x.rows(), rows)?;
                own = LinearInput::new(&selected);
                &own
            }
        };
        let parts = || {
            let members = set.members().iter().enumerate();
            members.filter_map(|(index, member)| Some((index, member, member.adapter.linear(self.site)?)))
        };
        let down: Vec<Product> = parts()
            .filter_map(|(.., part)| part.low_rank.as_ref())
            .map(|low_rank| Product { weight: &low_rank.a, bias: None })
            .collect();
        let narrow = match down.is_empty() {
            true => Vec::new(),
            false => compute.backend.products(&down, inputs, compute.arithmetic)?,
        };
        let mut narrow = narrow.into_iter();
        for (index, member, part) in parts() {
            let low = match part.low_rank.as_ref().and_then(|low_rank| Some((low_rank, narrow.next()?))) {
                None => None,
                Some((low_rank, rank)) => {
                    let origins = chosen.rows(x.rows().rows()).map(|row| x.origin(row));
                    let constant = member.weight * low_rank.scaling;
                    let factors = factors(set, (index, self.site), constant, origins, context);
                    let rank = factors.multiply(rank, context)?;
                    let up = Product { weight: &low_rank.b, bias: part.bias.as_ref() };
                    let made =
                        compute.backend.products(&[up], &LinearInput::new(&rank), compute.arithmetic)?;
                    let [low] = exactly(made)?;
                    Some(low)
                }
            };
            y = self.take(y, (member, part), low, (inputs, chosen), context)?;
        }
        Ok(y)
    }

    /// Applies one adapter to a product, given its low-rank product.
    fn take(
        &self,
        y: Rows,
        (member, part): (&Member, &LinearPart),
        low: Option<Rows>,
        (inputs, chosen): (&LinearInput, &RowSelection),
        context: &TransformContext,
    ) -> Result<Rows> {
        let backend = &context.compute.backend;
        if let Some(whole) = &part.whole {
            return replace(y, whole, inputs, chosen, context);
        }
        let Some(mut low) = low else {
            let Some(bias) = &part.bias else { return Ok(y) };
            let nothing = backend.scale(chosen.copy(&y, context)?, 0.0)?;
            return chosen.add(y, &backend.add_vector(nothing, bias)?, context);
        };
        if let Some(stretch) = member.stretch(self.site) {
            let mut more = backend.multiply_vector(chosen.copy(&y, context)?, &stretch.more)?;
            if let Some(bias) = &stretch.bias {
                more = backend.add_vector(more, bias)?;
            }
            low = backend.add(backend.multiply_vector(low, &stretch.factor)?, &more)?;
        }
        chosen.add(y, &low, context)
    }
}

/// The product with a weight that replaces the model's.
fn replace(
    y: Rows,
    whole: &FullWeight,
    inputs: &LinearInput,
    chosen: &RowSelection,
    context: &TransformContext,
) -> Result<Rows> {
    let compute = context.compute;
    let product = Product { weight: &whole.weight, bias: whole.bias.as_ref() };
    context.reads(&[product]);
    let [own] = exactly(compute.backend.products(&[product], inputs, compute.arithmetic)?)?;
    match chosen {
        RowSelection::All => Ok(own),
        RowSelection::Some(_) => {
            let less = compute.backend.scale(chosen.copy(&y, context)?, -1.0)?;
            chosen.add(y, &compute.backend.add(own, &less)?, context)
        }
    }
}

impl Linear for AdaptedLinear {
    fn in_features(&self) -> usize {
        self.inner.in_features()
    }

    fn out_features(&self) -> usize {
        self.inner.out_features()
    }

    fn forward(&self, x: &LinearInput, context: &TransformContext) -> Result<Rows> {
        if context.adapters.is_empty() {
            return self.inner.forward(x, context);
        }
        match self.terms(x.origins(), context) {
            Some(terms) => {
                let [rows] = exactly(sums(&[terms], x, context)?)?;
                Ok(rows)
            }
            None => self.apply(self.inner.forward(x, context)?, x, context),
        }
    }

    fn terms<'a>(&'a self, rows: RowOrigins, context: &'a TransformContext) -> Option<Terms<'a>> {
        let inner = self.inner.terms(rows, context)?;
        match self.added(rows, context) {
            AdapterTerms::LowRank(terms) if terms.is_empty() => Some(inner),
            // The operation after the product of the inner linear must come before the terms that are added here.
            _ if inner.has_after() => None,
            AdapterTerms::LowRank(terms) => Some(inner.with_low_rank(terms)),
            AdapterTerms::Other => Some(inner.with_after(self)),
        }
    }
}

impl AfterProduct for AdaptedLinear {
    fn apply(&self, product: Rows, x: &LinearInput, context: &TransformContext) -> Result<Rows> {
        let mut y = product;
        for (index, set) in context.adapters.iter().enumerate().filter(|(_, set)| set.acts_at(self.site)) {
            if let Some(chosen) = RowSelection::of(index, x.rows().rows(), |row| x.origin(row), context) {
                y = self.adapt_rows(y, x, set, &chosen, context)?;
            }
        }
        Ok(y)
    }
}

//! [`Adaption`]: what is done to a product in a step, so that products over the same rows are adapted together.

use super::chosen::{Chosen, Factors};
use super::low_rank::LowRank;
use crate::Result;
use crate::activated::Activated;
use crate::backend::{LowRankSum, Product};
use crate::context::TransformContext;
use crate::linear::Linear;
use crate::rows::Rows;

/// What is done to the product of a linear in one step.
#[derive(Debug)]
pub enum Adaption<'a> {
    /// Nothing.
    Nothing,
    /// Products of low rank are added.
    LowRank(Vec<LowRankTerm<'a>>),
    /// What only [`Linear::adapt`] does.
    Other,
}

/// A low-rank product that is added to some rows.
#[derive(Debug)]
pub struct LowRankTerm<'a> {
    pub(super) pair: &'a LowRank,
    pub(super) factors: Factors,
    pub(super) chosen: Chosen,
}

impl LowRankTerm<'_> {
    /// The first product of all rows as the second one takes it: of the chosen rows, times their factors.
    fn narrowed(&self, all: Rows, context: &TransformContext) -> Result<Rows> {
        let own = match self.chosen.picked() {
            None => all,
            Some(rows) => context.compute.backend.select(&all, rows)?,
        };
        self.factors.multiply(own, context)
    }
}

/// The products of linears over the same rows, adapted: the first products of low-rank pairs are made with them, the second
/// ones added all at once. `plain` are the products of the linears.
///
/// # Errors
/// What the backend reports.
pub(crate) fn adapted_products(
    linears: &[&dyn Linear],
    plain: Vec<Product>,
    x: &Activated,
    context: &TransformContext,
) -> Result<Vec<Rows>> {
    let (compute, count) = (context.compute, plain.len());
    let adaptions: Vec<Adaption> = linears.iter().map(|linear| linear.adaption(x, context)).collect();
    let terms = || {
        let lists = adaptions.iter().enumerate().filter_map(|(to, adaption)| match adaption {
            Adaption::LowRank(terms) => Some((to, terms)),
            Adaption::Nothing | Adaption::Other => None,
        });
        lists.flat_map(|(to, terms)| terms.iter().map(move |term| (to, term)))
    };
    let mut products = plain;
    products.extend(terms().map(|(_, term)| Product { weight: &term.pair.a, bias: None }));
    context.reads(&products);
    let mut made = compute.backend.products(&products, x, compute.arithmetic)?;
    let narrow = made.split_off(count.min(made.len()));
    let narrow: Vec<Rows> =
        terms().zip(narrow).map(|((_, term), all)| term.narrowed(all, context)).collect::<Result<_>>()?;
    if !narrow.is_empty() {
        let sums: Vec<LowRankSum> = terms()
            .zip(&narrow)
            .map(|((to, term), narrow)| {
                let rows = term.chosen.picked();
                LowRankSum { to, narrow, pair: term.pair, rows }
            })
            .collect();
        made = compute.backend.add_low_rank(made, &sums, compute.arithmetic)?;
    }
    let others = made.into_iter().zip(linears).zip(&adaptions);
    let adapted = others.map(|((product, linear), adaption)| match adaption {
        Adaption::Nothing | Adaption::LowRank(_) => Ok(product),
        Adaption::Other => linear.adapt(product, x, context),
    });
    adapted.collect()
}

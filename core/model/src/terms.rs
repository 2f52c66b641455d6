//! [`Terms`]: the sum that a linear computes in one step, so that several linears over the same rows are computed
//! together.

use crate::Result;
use crate::backend::{LowRankSum, Product};
use crate::context::TransformContext;
use crate::linear_input::LinearInput;
use crate::low_rank::LowRank;
use crate::rows::Rows;

/// The sum that a linear computes in one step: a product with a stored weight, then low-rank products, then a last
/// operation.
pub struct Terms<'a> {
    product: Product<'a>,
    low_rank: Vec<LowRankTerm<'a>>,
    after: Option<&'a dyn AfterProduct>,
}

/// An operation on the result of a product; some adapters have one.
pub(crate) trait AfterProduct: Send + Sync {
    /// From the product `[T, out]` of the rows of `x` to the result, `[T, out]`.
    ///
    /// # Errors
    /// A shape that does not fit.
    fn apply(&self, product: Rows, x: &LinearInput, context: &TransformContext) -> Result<Rows>;
}

impl<'a> Terms<'a> {
    /// A product and nothing else.
    pub fn product(product: Product<'a>) -> Self {
        Self { product, low_rank: Vec::new(), after: None }
    }

    /// Adds low-rank products.
    pub(crate) fn with_low_rank(mut self, terms: Vec<LowRankTerm<'a>>) -> Self {
        self.low_rank.extend(terms);
        self
    }

    /// Applies an operation last.
    pub(crate) fn with_after(self, after: &'a dyn AfterProduct) -> Self {
        Self { after: Some(after), ..self }
    }

    /// Whether an operation follows the products.
    pub(crate) fn has_after(&self) -> bool {
        self.after.is_some()
    }

    /// The product, if it is the only term: a caller may have it written to a place of its own.
    pub fn alone(self) -> Option<Product<'a>> {
        (self.low_rank.is_empty() && self.after.is_none()).then_some(self.product)
    }
}

/// A low-rank product that is added to some rows.
#[derive(Debug)]
pub(crate) struct LowRankTerm<'a> {
    pub(crate) pair: &'a LowRank,
    pub(crate) factors: RankFactors,
    /// The rows it is added to; `None` = all.
    pub(crate) rows: Option<Vec<u32>>,
}

/// The factors of the rows of a first low-rank product.
#[derive(Debug)]
pub(crate) enum RankFactors {
    /// One number.
    One(f32),
    /// One for each row.
    Each(Vec<f32>),
}

impl RankFactors {
    /// The rows, multiplied.
    pub(crate) fn multiply(&self, rows: Rows, context: &TransformContext) -> Result<Rows> {
        match self {
            Self::One(1.0) => Ok(rows),
            Self::One(factor) => context.compute.backend.scale(rows, *factor),
            Self::Each(factors) => context.compute.backend.scale_rows(rows, factors),
        }
    }
}

impl LowRankTerm<'_> {
    /// From the first product of all rows to the input of the second one: the selected rows, times their factors.
    fn narrowed(&self, all: Rows, context: &TransformContext) -> Result<Rows> {
        let own = match &self.rows {
            None => all,
            Some(rows) => context.compute.backend.select(&all, rows)?,
        };
        self.factors.multiply(own, context)
    }
}

/// The results of several linears over the same rows: their products and the first products of low-rank pairs in one
/// call, the second ones added in another, then the last operations.
///
/// # Errors
/// What the backend reports.
pub(crate) fn sums(linears: &[Terms], x: &LinearInput, context: &TransformContext) -> Result<Vec<Rows>> {
    let compute = context.compute;
    let terms = || {
        let lists = linears.iter().enumerate();
        lists.flat_map(|(to, linear)| linear.low_rank.iter().map(move |term| (to, term)))
    };
    let mut products: Vec<Product> = linears.iter().map(|linear| linear.product).collect();
    products.extend(terms().map(|(_, term)| Product { weight: &term.pair.a, bias: None }));
    context.reads(&products);
    let mut made = compute.backend.products(&products, x, compute.arithmetic)?;
    let narrow = made.split_off(linears.len().min(made.len()));
    let narrow: Vec<Rows> =
        terms().zip(narrow).map(|((_, term), all)| term.narrowed(all, context)).collect::<Result<_>>()?;
    if !narrow.is_empty() {
        let sums: Vec<LowRankSum> = terms()
            .zip(&narrow)
            .map(|((to, term), narrow)| LowRankSum {
                to,
                narrow,
                pair: term.pair,
                rows: term.rows.as_deref(),
            })
            .collect();
        made = compute.backend.add_low_rank(made, &sums, compute.arithmetic)?;
    }
    let results = made.into_iter().zip(linears).map(|(product, linear)| match linear.after {
        Some(after) => after.apply(product, x, context),
        None => Ok(product),
    });
    results.collect()
}

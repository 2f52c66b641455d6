//! [`AdaptedTable`]: a table of tokens that adapter sets add to.

use super::row_selection::{RowSelection, factors};
use crate::Result;
use crate::adapter_set::TablePart;
use crate::backend::Product;
use crate::backend::exactly;
use crate::context::TransformContext;
use crate::linear_input::LinearInput;
use crate::low_rank::LowRank;
use crate::rows::Rows;
use crate::table::Table;
use crate::terms::RankFactors;

/// A table and its number.
pub(super) struct AdaptedTable {
    inner: Box<dyn Table>,
    site: usize,
}

impl AdaptedTable {
    pub(super) fn new(inner: Box<dyn Table>, site: usize) -> Self {
        Self { inner, site }
    }
}

/// The rows that a low-rank adapter adds to those of ids, `[ids, D]`.
fn low_rank_rows(
    low_rank: &LowRank,
    factors: &RankFactors,
    ids: &[u32],
    context: &TransformContext,
) -> Result<Rows> {
    let compute = context.compute;
    let rank = factors.multiply(compute.backend.lookup(&low_rank.a, ids)?, context)?;
    let up = Product { weight: &low_rank.b, bias: None };
    let made = compute.backend.products(&[up], &LinearInput::new(&rank), compute.arithmetic)?;
    let [rows] = exactly(made)?;
    Ok(rows)
}

impl Table for AdaptedTable {
    fn rows(&self) -> usize {
        self.inner.rows()
    }

    fn width(&self) -> usize {
        self.inner.width()
    }

    fn lookup(&self, ids: &[u32], context: &TransformContext) -> Result<Rows> {
        let mut y = self.inner.lookup(ids, context)?;
        let backend = &context.compute.backend;
        for (index, set) in context.adapters.iter().enumerate().filter(|(_, set)| set.acts_at(self.site)) {
            let Some(chosen) = RowSelection::of(index, ids.len(), |row| row, context) else { continue };
            let own: Vec<u32> = chosen.rows(ids.len()).map(|row| ids[row]).collect();
            for (at, member) in set.members().iter().enumerate() {
                let more = match member.adapter.table(self.site) {
                    None => continue,
                    Some(TablePart::LowRank(low_rank)) => {
                        let constant = member.weight * low_rank.scaling;
                        let origins = chosen.rows(ids.len());
                        let factors = factors(set, (at, self.site), constant, origins, context);
                        low_rank_rows(low_rank, &factors, &own, context)?
                    }
                    Some(TablePart::Whole(table)) => {
                        let less = backend.scale(chosen.copy(&y, context)?, -1.0)?;
                        backend.add(backend.lookup(table, &own)?, &less)?
                    }
                };
                y = chosen.add(y, &more, context)?;
            }
        }
        Ok(y)
    }
}

//! [`RowSelection`]: the rows of a product that an adapter set acts on.

use crate::Result;
use crate::adapter_set::AdapterSet;
use crate::context::TransformContext;
use crate::rows::Rows;
use crate::terms::RankFactors;

/// Rows of a product whose sequences have one adapter set.
#[derive(Debug)]
pub(super) enum RowSelection {
    /// All of them.
    All,
    /// These, in order.
    Some(Vec<u32>),
}

impl RowSelection {
    /// The rows whose sequences have the set `set`; row `i` of a product came from row `origin(i)` of the step. `None`
    /// if the step has no such sequence, or none of its rows is here.
    pub(super) fn of(
        set: usize,
        rows: usize,
        origin: impl Fn(usize) -> usize,
        context: &TransformContext,
    ) -> Option<Self> {
        let sequences = context.layout.sequences();
        let having = sequences.iter().filter(|sequence| sequence.adapters == Some(set)).count();
        if having == 0 {
            return None;
        }
        if having == sequences.len() {
            return Some(Self::All);
        }
        let has = |row: &usize| {
            context.layout.sequence_of(origin(*row)).is_some_and(|sequence| sequence.adapters == Some(set))
        };
        let chosen: Vec<u32> = (0..rows).filter(has).map(|row| row as u32).collect();
        match chosen.len() {
            0 => None,
            all if all == rows => Some(Self::All),
            _ => Some(Self::Some(chosen)),
        }
    }

    /// Rows of the product, which has `rows` rows.
    pub(super) fn rows(&self, rows: usize) -> impl Iterator<Item = usize> + '_ {
        let (all, some) = match self {
            Self::All => (0..rows, &[][..]),
            Self::Some(some) => (0..0, some.as_slice()),
        };
        all.chain(some.iter().map(|row| *row as usize))
    }

    /// Their numbers, if they are not all rows.
    pub(super) fn picked(self) -> Option<Vec<u32>> {
        match self {
            Self::All => None,
            Self::Some(rows) => Some(rows),
        }
    }

    /// `y` with `more` added to these rows.
    pub(super) fn add(&self, y: Rows, more: &Rows, context: &TransformContext) -> Result<Rows> {
        match self {
            Self::All => context.compute.backend.add(y, more),
            Self::Some(rows) => context.compute.backend.add_rows(y, rows, more),
        }
    }

    /// These rows of `y` again.
    pub(super) fn copy(&self, y: &Rows, context: &TransformContext) -> Result<Rows> {
        match self {
            Self::All => context.compute.backend.copy(y),
            Self::Some(rows) => context.compute.backend.select(y, rows),
        }
    }
}

/// The factors of member `member` of a set at a site; `constant` is weight times scaling, `origins` the step's rows.
pub(super) fn factors(
    set: &AdapterSet,
    (member, site): (usize, usize),
    constant: f32,
    origins: impl Iterator<Item = usize>,
    context: &TransformContext,
) -> RankFactors {
    let Some((scalings, layer)) = context.scalings.zip(set.scaling_layer(site)) else {
        return RankFactors::One(constant);
    };
    // A row past the scalings has none: nothing is added to it.
    let of = |row: usize| scalings.at(row, layer).and_then(|all| all.get(member)).copied().unwrap_or(0.0);
    RankFactors::Each(origins.map(|row| of(row) * constant).collect())
}

//! [`Rope`]: rotary positions of an attention; layers that rotate alike share one, and its tables.

use crate::context::TransformContext;
use crate::step::RopeRegime;
use crate::{Result, ops};
use candle_core::Tensor;
use menagerie_kernels::{RopePairs, RopeTable};
use std::ops::Range;
use std::sync::Arc;

/// Rotary positions (Su et al., 2021) with every frequency known.
#[derive(Clone, Debug, PartialEq)]
pub struct Rope {
    /// Which elements form a pair.
    pub pairs: RopePairs,
    /// Radians per position, one per pair: of every sequence, or of those in the short regime.
    pub frequencies: Vec<f32>,
    /// The same for sequences in the long regime (LongRoPE); absent: one regime only.
    pub long_frequencies: Option<Vec<f32>>,
    /// Multiplies cosine and sine.
    pub magnitude: f32,
}

/// A [`Rope`] with the id its tables have in a step.
#[derive(Clone, Debug)]
pub(crate) struct DeclaredRope {
    rope: Arc<Rope>,
    id: usize,
}

/// Hands out rope ids while a model is assembled: equal ropes get one id, and share their tables in a step.
#[derive(Clone, Debug, Default)]
pub struct RopeDeclarations {
    ropes: Vec<Arc<Rope>>,
}

impl RopeDeclarations {
    /// The id of an equal rope, or a new one.
    pub(crate) fn declare(&mut self, rope: Rope) -> DeclaredRope {
        let known = self.ropes.iter().position(|known| **known == rope);
        let id = known.unwrap_or(self.ropes.len());
        if known.is_none() {
            self.ropes.push(Arc::new(rope));
        }
        DeclaredRope { rope: Arc::clone(&self.ropes[id]), id }
    }
}

/// Cosines and sines of a step, for runs of rows of one regime.
pub(crate) type StepTables = Vec<(Range<usize>, RopeTable)>;

/// The rope tables of a step, by rope id; made when first needed.
#[derive(Clone, Debug, Default)]
pub struct RopeTables {
    tables: Vec<Option<Arc<StepTables>>>,
}

impl DeclaredRope {
    /// The tables of this step.
    pub(crate) fn tables(&self, context: &mut TransformContext) -> Arc<StepTables> {
        if let Some(Some(found)) = context.rope_tables.tables.get(self.id) {
            return Arc::clone(found);
        }
        let made = Arc::new(self.make_tables(context));
        let tables = &mut context.rope_tables.tables;
        tables.resize(tables.len().max(self.id + 1), None);
        tables[self.id] = Some(Arc::clone(&made));
        made
    }

    fn make_tables(&self, context: &TransformContext) -> StepTables {
        let mut runs: Vec<(Range<usize>, &[f32])> = Vec::new();
        for part in context.layout.sequences() {
            let frequencies = match (&self.rope.long_frequencies, part.regime) {
                (Some(long), RopeRegime::Long) => long,
                _ => &self.rope.frequencies,
            };
            match runs.last_mut() {
                Some((rows, same)) if std::ptr::eq(*same, frequencies.as_slice()) => rows.end = part.rows.end,
                _ => runs.push((part.rows.clone(), frequencies)),
            }
        }
        let positions = context.layout.positions();
        let table = |(rows, frequencies): (Range<usize>, &[f32])| {
            let table = RopeTable::new(&positions[rows.clone()], frequencies, self.rope.magnitude);
            (rows, table)
        };
        runs.into_iter().map(table).collect()
    }

    /// Rotates rows `[T, heads * head_dim]`; takes `x` over.
    pub(crate) fn rotate(
        &self,
        x: Tensor,
        tables: &StepTables,
        head_dim: usize,
        context: &TransformContext,
    ) -> Result<Tensor> {
        ops::rotate(x, tables, self.rope.pairs, head_dim, context.compute)
    }
}

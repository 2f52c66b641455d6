//! [`Rope`]: rotary positions of an attention; layers with equal ropes share one, and its tables.

use crate::Result;
use crate::backend::Rotation;
use crate::context::TransformContext;
use crate::rope_tables::StepTables;
use crate::rows::Rows;
use crate::step::RopeRegime;
use menagerie_formulas::RopePairs;
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

/// The inputs of a component that computes the frequencies of a rope.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FrequencyQuestion {
    /// Base of the geometric series.
    pub base: f32,
    /// Elements of a head that rotate; even.
    pub rotated: usize,
    /// Tokens of the context that the frequencies are for.
    pub context_length: usize,
}

/// The result of such a component.
#[derive(Clone, Debug, PartialEq)]
pub struct ScaledFrequencies {
    /// Radians per position, one per pair.
    pub frequencies: Vec<f32>,
    /// Multiplies cosine and sine.
    pub magnitude: f32,
}

/// The frequencies of a rope from a registered component; computed while a model is assembled.
pub trait RopeFrequencies: Send + Sync {
    /// The answer to a question.
    ///
    /// # Errors
    /// What the component reports.
    fn frequencies(&self, question: &FrequencyQuestion) -> Result<ScaledFrequencies>;
}

/// A [`Rope`] with the id its tables have in a step.
#[derive(Clone, Debug)]
pub(crate) struct DeclaredRope {
    rope: Arc<Rope>,
    id: usize,
}

/// Assigns rope ids while a model is assembled: equal ropes get one id, and share their tables in a step.
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

impl DeclaredRope {
    /// The tables of this step.
    pub(crate) fn tables(&self, context: &mut TransformContext) -> Result<Arc<StepTables>> {
        if let Some(Some(found)) = context.rope_tables.tables.get(self.id) {
            return Ok(Arc::clone(found));
        }
        let made = Arc::new(self.make_tables(context)?);
        let tables = &mut context.rope_tables.tables;
        tables.resize(tables.len().max(self.id + 1), None);
        tables[self.id] = Some(Arc::clone(&made));
        Ok(made)
    }

    fn make_tables(&self, context: &TransformContext) -> Result<StepTables> {
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
        let positions = context.layout.positions().only_axis()?;
        let table = |(rows, frequencies): (Range<usize>, &[f32])| {
            let backend = &context.compute.backend;
            let table = backend.rope_table(&positions[rows.clone()], frequencies, self.rope.magnitude)?;
            Ok((rows, table))
        };
        runs.into_iter().map(table).collect()
    }

    /// Rotates rows `[T, heads * head_dim]`.
    pub(crate) fn rotate(
        &self,
        x: Rows,
        tables: &StepTables,
        head_dim: usize,
        context: &TransformContext,
    ) -> Result<Rows> {
        let rotation = Rotation { tables, pairs: self.rope.pairs, head_dim };
        context.compute.backend.rotate(x, rotation)
    }
}

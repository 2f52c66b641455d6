//! [`Shifted`]: the rows of a step beside the last row of each sequence's step before.

use menagerie_model::{Backend, Result, Rows, StateId, TransformContext};
use menagerie_rwkv7::math::{Shift, Span};
use std::borrow::Cow;
use std::ops::Range;

/// The rows of a step, and what came before them.
pub(crate) struct Shifted<'a> {
    x: Cow<'a, [f32]>,
    width: usize,
    /// A row for each sequence.
    before: Vec<Vec<f32>>,
    rows: Vec<Range<usize>>,
}

impl<'a> Shifted<'a> {
    /// Reads the rows, and the row before the first of each sequence from a state.
    pub(crate) fn new(
        x: &'a Rows,
        state: StateId,
        backend: &dyn Backend,
        context: &TransformContext,
    ) -> Result<Self> {
        let sequences = context.layout.sequences();
        let before = sequences.iter().map(|part| context.states.read_block(state, part.sequence));
        let rows = sequences.iter().map(|part| part.rows.clone()).collect();
        Ok(Self { x: backend.read(x)?, width: x.cols(), before: before.collect::<Result<_>>()?, rows })
    }

    /// Every row mixed with the one before it, by a share for each element.
    pub(crate) fn mixed(&self, share: &[f32], backend: &dyn Backend) -> Result<Rows> {
        let spans = self.spans();
        let mut out = vec![0.0; self.x.len()];
        Shift { x: &self.x, width: self.width, spans: &spans }.mix(share, 0, &mut out);
        backend.upload(out, self.width)
    }

    /// Keeps the last row of each sequence for its next step.
    pub(crate) fn keep(&self, state: StateId, context: &mut TransformContext) -> Result<()> {
        let spans = self.spans();
        let shift = Shift { x: &self.x, width: self.width, spans: &spans };
        for (part, span) in context.layout.sequences().iter().zip(&spans) {
            if let Some(last) = shift.last(span) {
                context.states.write_block(state, part.sequence, last)?;
            }
        }
        Ok(())
    }

    fn spans(&self) -> Vec<Span<'_>> {
        let parts = self.rows.iter().zip(&self.before);
        parts.map(|(rows, before)| Span { first: rows.start, rows: rows.len(), before }).collect()
    }
}

//! [`Shifted`]: the rows of a call beside the row before each.

use crate::math::{Shift, Span};
use menagerie_plugin::{Error, Host, Result, Rows, RowsMut, Sequences, State, States};

/// Rows that a thread works on at a time.
pub(crate) const PART: usize = 32;

/// The rows of a call, and its sequences with the row before each.
pub(crate) struct Shifted<'a> {
    x: &'a [f32],
    width: usize,
    spans: Vec<Span<'a>>,
}

impl<'a> Shifted<'a> {
    /// `before` has the last row of each sequence's step before, zeros where it begins.
    pub(crate) fn new(
        x: Rows<'a>,
        sequences: &Sequences,
        states: &'a States,
        before: &State,
    ) -> Result<Shifted<'a>> {
        let span = |(index, rows): (usize, std::ops::Range<usize>)| {
            Ok(Span { first: rows.start, rows: rows.len(), before: states.get(index, before)? })
        };
        let spans = sequences.iter().map(|sequence| sequence.rows()).enumerate().map(span);
        let width = x.cols();
        Ok(Shifted { x: whole(x)?, width, spans: spans.collect::<Result<_>>()? })
    }

    /// Every row mixed with the one before it, by a share for each element.
    pub(crate) fn mix(&self, share: &[f32], into: &mut RowsMut, host: &Host) -> Result<()> {
        let shift = Shift { x: self.x, width: self.width, spans: &self.spans };
        host.parallel_over(into.reborrow().chunks(PART), |part, mut rows| {
            for row in 0..rows.rows() {
                shift.mix(share, part * PART + row, rows.row_mut(row));
            }
        })
    }
}

/// Keeps the last row of each sequence for its next step.
pub(crate) fn keep(x: Rows, sequences: &Sequences, states: &mut States, before: &State) -> Result<()> {
    for (index, sequence) in sequences.iter().enumerate() {
        if let Some(last) = sequence.rows().last() {
            states.get_mut(index, before)?.copy_from_slice(x.row(last));
        }
    }
    Ok(())
}

/// Changes every element, on the host's threads.
pub(crate) fn change(rows: &mut RowsMut, by: fn(&mut [f32]), host: &Host) -> Result<()> {
    host.parallel_over(rows.reborrow().chunks(PART), |_, mut rows| {
        for row in 0..rows.rows() {
            by(rows.row_mut(row));
        }
    })
}

/// Rows as one slice.
pub(crate) fn whole(rows: Rows<'_>) -> Result<&[f32]> {
    rows.as_slice().ok_or_else(|| Error::new("the rows from the host are not contiguous"))
}

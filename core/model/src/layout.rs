//! [`SequenceLayout`]: which rows of a step belong to which sequence.
//!
//! Activations are `[T, D]`: every token of every sequence of a step, one after the other. There is no batch
//! dimension and no padding; a prompt, a chunk, a decode step and a mix of them are the same call.

use crate::sequence_id::SequenceId;
use crate::step::{InferenceStep, RopeRegime};
use crate::{ModelError, Result};
use std::collections::HashSet;
use std::ops::Range;

/// Rows of one sequence in a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SequenceRows {
    /// Its id in the pool of state.
    pub sequence: SequenceId,
    /// Its rows in `[T, D]`.
    pub rows: Range<usize>,
    /// Position of its first row.
    pub first_position: usize,
    /// What this step is for the sequence.
    pub step: InferenceStep,
    /// The rope regime its cached keys have.
    pub regime: RopeRegime,
    /// Which of its rows request logits, relative to `rows.start`.
    pub logits: Range<usize>,
    /// Which of the step's adapter sets acts on its rows; absent = the bare model.
    pub adapters: Option<usize>,
}

impl SequenceRows {
    /// Whether the step holds the whole sequence: a prompt in one piece.
    pub fn is_whole(&self) -> bool {
        self.first_position == 0 && self.rows.len() == self.step.total_tokens()
    }
}

/// Positions of rows from the caller, `[T, axes]`: one axis for text, three for M-RoPE.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Positions {
    axes: usize,
    values: Vec<u32>,
}

impl Positions {
    /// Positions of `values.len() / axes` rows.
    ///
    /// # Errors
    /// [`ModelError::Layout`] if the last row is incomplete.
    pub fn new(axes: usize, values: Vec<u32>) -> Result<Self> {
        if axes == 0 || !values.len().is_multiple_of(axes) {
            return Err(ModelError::Layout(format!(
                "{} positions are not a multiple of {axes} axes",
                values.len()
            )));
        }
        Ok(Self { axes, values })
    }

    /// Positions per row.
    pub fn axes(&self) -> usize {
        self.axes
    }

    /// The positions, row after row, `[T, axes]`.
    pub fn values(&self) -> &[u32] {
        &self.values
    }

    /// T.
    pub fn rows(&self) -> usize {
        self.values.len().checked_div(self.axes).unwrap_or(0)
    }

    /// The only position of every row, `[T]`.
    ///
    /// # Errors
    /// [`ModelError::Unsupported`] if rows have several.
    pub(crate) fn only_axis(&self) -> Result<&[u32]> {
        if self.axes == 1 {
            return Ok(&self.values);
        }
        Err(ModelError::Unsupported(format!(
            "the step has {} positions per row, and this model's rope takes one",
            self.axes
        )))
    }
}

/// The rows of a step, sequence by sequence, without gaps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SequenceLayout {
    sequences: Vec<SequenceRows>,
    positions: Positions,
    rows: usize,
}

impl SequenceLayout {
    /// Checks that the rows follow each other from 0 and that no sequence occurs twice; every row's position is its
    /// place in its sequence.
    ///
    /// # Errors
    /// [`ModelError::Layout`] names the sequence that breaks the order.
    pub fn new(sequences: Vec<SequenceRows>) -> Result<Self> {
        let places = |rows: &SequenceRows| rows.first_position..rows.first_position + rows.rows.len();
        let values = sequences.iter().flat_map(places).map(|place| place as u32).collect();
        Self::with_positions(sequences, Positions::new(1, values)?)
    }

    /// The same with explicit positions of the rows.
    ///
    /// # Errors
    /// [`ModelError::Layout`] names the sequence that breaks the order, or the number of positions does not match the
    /// rows.
    pub fn with_positions(sequences: Vec<SequenceRows>, positions: Positions) -> Result<Self> {
        let mut seen = HashSet::with_capacity(sequences.len());
        let mut next = 0;
        for (index, rows) in sequences.iter().enumerate() {
            if rows.rows.start != next || rows.rows.is_empty() {
                return Err(ModelError::Layout(format!(
                    "sequence {index} has rows {:?}, expected a range that starts at {next} and is not empty",
                    rows.rows
                )));
            }
            if rows.logits.end > rows.rows.len() {
                return Err(ModelError::Layout(format!(
                    "sequence {index} requests logits of rows {:?} but has {} rows",
                    rows.logits,
                    rows.rows.len()
                )));
            }
            if !seen.insert(rows.sequence) {
                return Err(ModelError::Layout(format!(
                    "sequence {} occurs twice in one step",
                    rows.sequence
                )));
            }
            next = rows.rows.end;
        }
        if positions.rows() != next {
            return Err(ModelError::Layout(format!("{} positions for {next} rows", positions.rows())));
        }
        Ok(Self { sequences, positions, rows: next })
    }

    /// The same with this adapter set for every sequence.
    pub(crate) fn with_adapters(&self, set: Option<usize>) -> Self {
        let mut same = self.clone();
        same.sequences.iter_mut().for_each(|part| part.adapters = set);
        same
    }

    /// The layout of only some of the sequences, and their rows in this layout; absent if there are none.
    ///
    /// # Errors
    /// As [`SequenceLayout::with_positions`].
    pub fn only(&self, wanted: impl Fn(&SequenceRows) -> bool) -> Result<Option<(Self, Vec<u32>)>> {
        let (mut sequences, mut rows, mut values) = (Vec::new(), Vec::new(), Vec::new());
        for part in self.sequences.iter().filter(|part| wanted(part)) {
            let start = rows.len();
            rows.extend(part.rows.clone().map(|row| row as u32));
            let axes = self.positions.axes;
            values.extend(&self.positions.values[part.rows.start * axes..part.rows.end * axes]);
            sequences.push(SequenceRows { rows: start..rows.len(), ..part.clone() });
        }
        if sequences.is_empty() {
            return Ok(None);
        }
        let positions = Positions::new(self.positions.axes, values)?;
        Ok(Some((Self::with_positions(sequences, positions)?, rows)))
    }

    /// The sequences, in row order.
    pub fn sequences(&self) -> &[SequenceRows] {
        &self.sequences
    }

    /// Positions of every row, `[T, axes]`.
    pub fn positions(&self) -> &Positions {
        &self.positions
    }

    /// T: rows of the step.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Rows that request logits, as indices into `[T, D]`, in row order.
    pub fn logit_rows(&self) -> Vec<u32> {
        self.sequences.iter().flat_map(|s| s.logits.clone().map(|i| (s.rows.start + i) as u32)).collect()
    }

    /// The sequence that a row of the step belongs to.
    pub fn sequence_of(&self, row: usize) -> Option<&SequenceRows> {
        let after = self.sequences.partition_point(|sequence| sequence.rows.end <= row);
        self.sequences.get(after)
    }
}

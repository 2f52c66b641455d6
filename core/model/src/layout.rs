//! [`SequenceLayout`]: which rows of a step belong to which sequence.
//!
//! Activations are `[T, D]`: every token of every sequence of a step, one after the other. There is no batch
//! dimension and no padding; a prompt, a chunk, a decode step and a mix of them are the same call.

use crate::state::SequenceId;
use crate::step::{InferenceStep, RopeRegime};
use crate::{ModelError, Result};
use std::ops::Range;

/// Rows of one sequence in a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SequenceRows {
    /// The sequence, as the state store knows it.
    pub sequence: SequenceId,
    /// Its rows in `[T, D]`.
    pub rows: Range<usize>,
    /// Position of its first row.
    pub first_position: usize,
    /// What this step is for the sequence.
    pub step: InferenceStep,
    /// The rope regime its cached keys have.
    pub regime: RopeRegime,
    /// Which of its rows want logits, relative to `rows.start`.
    pub logits: Range<usize>,
    /// Adapter set that acts on its rows; absent = the bare model.
    pub adapters: Option<usize>,
}

/// The rows of a step, sequence by sequence, without gaps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SequenceLayout {
    sequences: Vec<SequenceRows>,
    positions: Vec<u32>,
}

impl SequenceLayout {
    /// Checks that the rows follow each other from 0 and that no sequence occurs twice.
    ///
    /// # Errors
    /// [`ModelError::Layout`] names the sequence that breaks the order.
    pub fn new(sequences: Vec<SequenceRows>) -> Result<Self> {
        let mut positions = Vec::new();
        for (index, rows) in sequences.iter().enumerate() {
            if rows.rows.start != positions.len() || rows.rows.is_empty() {
                return Err(ModelError::Layout(format!(
                    "sequence {index} has rows {:?}, expected a range that starts at {} and is not empty",
                    rows.rows,
                    positions.len()
                )));
            }
            if rows.logits.end > rows.rows.len() {
                return Err(ModelError::Layout(format!(
                    "sequence {index} wants logits of rows {:?} but has {} rows",
                    rows.logits,
                    rows.rows.len()
                )));
            }
            if sequences[..index].iter().any(|other| other.sequence == rows.sequence) {
                return Err(ModelError::Layout(format!(
                    "sequence {:?} occurs twice in one step",
                    rows.sequence
                )));
            }
            positions.extend((rows.first_position..rows.first_position + rows.rows.len()).map(|p| p as u32));
        }
        Ok(Self { sequences, positions })
    }

    /// The sequences, in row order.
    pub fn sequences(&self) -> &[SequenceRows] {
        &self.sequences
    }

    /// Position of every row, `[T]`.
    pub fn positions(&self) -> &[u32] {
        &self.positions
    }

    /// T: rows of the step.
    pub fn rows(&self) -> usize {
        self.positions.len()
    }

    /// Rows that want logits, as indices into `[T, D]`, in row order.
    pub fn logit_rows(&self) -> Vec<usize> {
        self.sequences.iter().flat_map(|s| s.logits.clone().map(|i| s.rows.start + i)).collect()
    }
}

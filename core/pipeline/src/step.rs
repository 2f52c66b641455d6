//! [`Step`]: what a step of several sequences gave: logits of the last row or of all, or vectors.

use crate::error::GenerateError;
use menagerie_model::{Compute, ModelError, Rows};
use std::borrow::Cow;
use std::ops::Range;

/// What a step gave: rows, and for each sequence that took part which of them are its own, or why it failed.
///
/// A language model gives logits: of a prompt's last row, of all its rows or of some ([`crate::Wanted`]), of every token that
/// is fed back, none before the last chunk of a prompt. An encoder gives a vector for each sequence, or one for each row.
pub struct Step {
    pub(crate) rows: StepRows,
    /// Columns of the rows.
    pub width: usize,
    /// The sequences that took part.
    pub parts: Vec<StepPart>,
}

/// One sequence in a step.
#[derive(Debug)]
pub struct StepPart {
    /// Its place among the sequences the step was given.
    pub index: usize,
    /// Its rows, or why it failed; it then holds what it held.
    pub result: Result<Range<usize>, GenerateError>,
}

/// Rows `[T', width]` where they can be read once more without being copied.
pub(crate) enum StepRows {
    /// None were wanted.
    None,
    /// In host memory, as the backend keeps them.
    Rows(Rows, Compute),
    /// Read from a device.
    Host(Vec<f32>),
}

impl StepRows {
    pub(crate) fn new(rows: Rows, compute: &Compute) -> Result<Self, ModelError> {
        match compute.backend.read(&rows)? {
            Cow::Owned(values) => Ok(Self::Host(values)),
            Cow::Borrowed(_) => Ok(Self::Rows(rows, compute.clone())),
        }
    }

    pub(crate) fn values(&self) -> Result<Cow<'_, [f32]>, ModelError> {
        match self {
            Self::None => Ok(Cow::Borrowed(&[])),
            Self::Rows(rows, compute) => compute.backend.read(rows),
            Self::Host(values) => Ok(Cow::Borrowed(values)),
        }
    }
}

impl Step {
    /// The rows `[T', width]` of all parts, one after the other; borrowed where they are in host memory.
    ///
    /// # Errors
    /// What the backend reports.
    pub fn values(&self) -> Result<Cow<'_, [f32]>, GenerateError> {
        Ok(self.rows.values()?)
    }

    /// Those of one part, of [`Self::values`].
    ///
    /// # Errors
    /// There are fewer rows than the part says.
    pub(crate) fn part<'v>(
        &self,
        values: &'v [f32],
        rows: &Range<usize>,
    ) -> Result<&'v [f32], GenerateError> {
        own_rows(values, rows, self.width)
    }
}

/// These rows of values `[T', width]`.
///
/// # Errors
/// There are fewer.
pub(crate) fn own_rows<'v>(
    values: &'v [f32],
    rows: &Range<usize>,
    width: usize,
) -> Result<&'v [f32], GenerateError> {
    values.get(rows.start * width..rows.end * width).ok_or_else(|| {
        GenerateError::from(ModelError::Shape {
            what: "rows of a step".to_owned(),
            expected: format!("at least {} rows of {width}", rows.end),
            found: format!("{} values", values.len()),
        })
    })
}

/// The error of a step for another of the sequences in it.
pub(crate) fn shared(error: &GenerateError) -> GenerateError {
    match error {
        GenerateError::Cancelled => GenerateError::Cancelled,
        other => GenerateError::Together(other.to_string()),
    }
}

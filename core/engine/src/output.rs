//! [`StepOutput`]: the rows that a step produced for a sequence; [`StepResults`]: for all of its sequences.

use crate::error::GenerateError;
use menagerie_model::{Compute, ModelError, Rows};
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

/// The rows that a step produced for one sequence. Each accessor returns one kind of rows, or an error if the step
/// produced another kind.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum StepOutput<'v> {
    /// No rows: only the last chunk of a prompt produces logits, unless more are requested ([`crate::LogitRows`]).
    Nothing,
    /// Logits `[V]` after the newest token.
    LastLogits(&'v [f32]),
    /// Logits `[T', V]` of every requested row.
    AllLogits(&'v [f32]),
    /// A vector `[D]`, one for each row `[T, D]` without pooling, or the scores `[labels]` of a classifier.
    Embeddings(&'v [f32]),
}

impl<'v> StepOutput<'v> {
    /// Logits `[T', V]` of one or several rows. An empty list if the step produced no logits.
    ///
    /// # Errors
    /// [`GenerateError::Output`]: the step produced vectors.
    pub fn logits(self) -> Result<&'v [f32], GenerateError> {
        match self {
            Self::Nothing => Ok(&[]),
            Self::LastLogits(rows) | Self::AllLogits(rows) => Ok(rows),
            Self::Embeddings(_) => Err(self.mismatch("logits")),
        }
    }

    /// Logits `[V]` after the newest token. `None` if the step produced no logits.
    ///
    /// # Errors
    /// [`GenerateError::Output`]: the step produced logits of all rows, or vectors.
    pub fn last_logits(self) -> Result<Option<&'v [f32]>, GenerateError> {
        match self {
            Self::Nothing => Ok(None),
            Self::LastLogits(row) => Ok(Some(row)),
            Self::AllLogits(_) | Self::Embeddings(_) => Err(self.mismatch("logits of the last row")),
        }
    }

    /// A vector, or one for each row.
    ///
    /// # Errors
    /// [`GenerateError::Output`]: the step produced nothing, or logits.
    pub(crate) fn embeddings(self) -> Result<&'v [f32], GenerateError> {
        match self {
            Self::Embeddings(rows) => Ok(rows),
            Self::Nothing | Self::LastLogits(_) | Self::AllLogits(_) => Err(self.mismatch("vectors")),
        }
    }

    fn mismatch(self, expected: &'static str) -> GenerateError {
        let found = match self {
            Self::Nothing => "nothing",
            Self::LastLogits(_) => "logits of the last row",
            Self::AllLogits(_) => "logits of all rows",
            Self::Embeddings(_) => "vectors",
        };
        GenerateError::Output { expected, found }
    }
}

/// The index of a sequence in its step, and its row of logits `[V]`.
pub(crate) type LastRow<'v> = (usize, &'v [f32]);

/// The results of a step: the rows of each sequence in it, or its error. A sequence that failed is as it was before
/// the step.
pub struct StepResults {
    rows: StepRows,
    parts: Vec<SequenceResult>,
}

/// The result of one sequence in a step.
pub(crate) struct SequenceResult {
    /// Its index among the sequences that were passed to the step.
    pub(crate) index: usize,
    /// Its rows, or its error.
    pub(crate) rows: Result<OutputRows, GenerateError>,
}

/// The kind of a sequence's rows in a step, and their range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OutputRows {
    Nothing,
    LastLogits(Range<usize>),
    /// Logits of the newest token and of guesses after it, each of which is the last row if the guess before it is right.
    RowByRow(Range<usize>),
    AllLogits(Range<usize>),
    Embeddings(Range<usize>),
}

/// Rows `[T', width]` that can be read without a copy.
pub(crate) struct StepRows {
    storage: RowStorage,
    width: usize,
}

enum RowStorage {
    /// No rows.
    Empty,
    /// In host memory, as the backend keeps them.
    Backend(Rows, Compute),
    /// Copied from a device.
    Host(Vec<f32>),
}

impl StepResults {
    /// Results whose rows are in `rows`.
    pub(crate) fn new(rows: StepRows, parts: Vec<SequenceResult>) -> Self {
        Self { rows, parts }
    }

    /// Adds the results of sequences that failed before the step.
    pub(crate) fn with_failed(mut self, failed: Vec<SequenceResult>) -> Self {
        self.parts.splice(0..0, failed);
        self
    }

    /// The width of the rows.
    pub(crate) fn width(&self) -> usize {
        self.rows.width
    }

    /// The number of sequences in the step, including those that failed.
    pub fn count(&self) -> usize {
        self.parts.len()
    }

    /// Passes the rows of logits that the next [`Self::turn`] passes on to `look`, with the index of their sequence, in
    /// ascending order.
    pub(crate) fn last_rows(&self, look: &mut dyn FnMut(&[LastRow])) {
        let Ok(values) = self.rows.values() else { return };
        let row = |part: &SequenceResult| match &part.rows {
            Ok(OutputRows::LastLogits(own) | OutputRows::RowByRow(own)) => {
                let first = own.start..own.end.min(own.start + 1);
                Some((part.index, rows_of(&values, &first, self.rows.width).ok()?))
            }
            _ => None,
        };
        let mut rows: Vec<_> = self.parts.iter().filter_map(row).collect();
        rows.sort_by_key(|(index, _)| *index);
        look(&rows);
    }

    /// Passes the output or the error of each sequence to `take`, with its index; of a sequence with guesses only the first
    /// row. `take` returns whether the sequence takes its next row, too. Returns the results with these rows, if there
    /// are any.
    pub(crate) fn turn(
        self,
        take: &mut dyn FnMut(usize, Result<StepOutput, GenerateError>) -> bool,
    ) -> Option<Self> {
        let Self { rows: step, parts } = self;
        let mut left = Vec::new();
        {
            let values = step.values();
            for SequenceResult { index, rows } in parts {
                let (first, rest) = match rows {
                    Ok(OutputRows::RowByRow(own)) => {
                        let next = own.end.min(own.start + 1);
                        (Ok(OutputRows::LastLogits(own.start..next)), next..own.end)
                    }
                    rows => (rows, 0..0),
                };
                let goes_on = take(index, output_of(first, &values, step.width));
                if goes_on && !rest.is_empty() {
                    left.push(SequenceResult { index, rows: Ok(OutputRows::RowByRow(rest)) });
                }
            }
        }
        (!left.is_empty()).then(|| Self::new(step, left))
    }

    /// Passes the output to `take`, for a step of one sequence.
    ///
    /// # Errors
    /// The error of the sequence or of `take`, or the step did not include the sequence.
    pub(crate) fn only(
        self,
        take: impl FnOnce(StepOutput) -> Result<(), GenerateError>,
    ) -> Result<(), GenerateError> {
        let (mut take, mut taken) = (Some(take), None);
        self.each(&mut |_, output| {
            if let Some(take) = take.take() {
                taken = Some(output.and_then(take));
            }
        });
        taken.unwrap_or(Err(GenerateError::Output { expected: "rows of one sequence", found: "no sequence" }))
    }

    /// Passes the output or the error of each sequence to `take`, with its index among the sequences that were passed
    /// to the step.
    pub fn each(self, take: &mut dyn FnMut(usize, Result<StepOutput, GenerateError>)) {
        let values = self.rows.values();
        for SequenceResult { index, rows } in self.parts {
            take(index, output_of(rows, &values, self.rows.width));
        }
    }
}

/// The output of a sequence among the values of a step.
fn output_of<'v>(
    rows: Result<OutputRows, GenerateError>,
    values: &'v Result<Cow<[f32]>, ModelError>,
    width: usize,
) -> Result<StepOutput<'v>, GenerateError> {
    match (rows, values) {
        (Err(error), _) => Err(error),
        (Ok(_), Err(error)) => Err(GenerateError::Together(error.to_string())),
        (Ok(own), Ok(values)) => own.among(values, width),
    }
}

impl OutputRows {
    /// These rows of the values `[T', width]` of a step.
    fn among(self, values: &[f32], width: usize) -> Result<StepOutput<'_>, GenerateError> {
        Ok(match self {
            Self::Nothing => StepOutput::Nothing,
            Self::LastLogits(rows) => StepOutput::LastLogits(rows_of(values, &rows, width)?),
            Self::RowByRow(rows) | Self::AllLogits(rows) => {
                StepOutput::AllLogits(rows_of(values, &rows, width)?)
            }
            Self::Embeddings(rows) => StepOutput::Embeddings(rows_of(values, &rows, width)?),
        })
    }
}

impl StepRows {
    /// No rows.
    pub(crate) fn none() -> Self {
        Self { storage: RowStorage::Empty, width: 0 }
    }

    /// One known row.
    pub(crate) fn of_one(row: Vec<f32>) -> Self {
        Self { width: row.len(), storage: RowStorage::Host(row) }
    }

    /// Rows of a forward pass.
    ///
    /// # Errors
    /// They cannot be read from the device.
    pub(crate) fn new(rows: Rows, compute: &Compute) -> Result<Self, ModelError> {
        let width = rows.cols();
        let storage = match compute.backend.read(&rows)? {
            Cow::Owned(values) => RowStorage::Host(values),
            Cow::Borrowed(_) => RowStorage::Backend(rows, compute.clone()),
        };
        Ok(Self { storage, width })
    }

    fn values(&self) -> Result<Cow<'_, [f32]>, ModelError> {
        match &self.storage {
            RowStorage::Empty => Ok(Cow::Borrowed(&[])),
            RowStorage::Backend(rows, compute) => compute.backend.read(rows),
            RowStorage::Host(values) => Ok(Cow::Borrowed(values)),
        }
    }

    /// Passes some of the rows and their width to `look`.
    ///
    /// # Errors
    /// There are fewer rows, or an error of `look`.
    pub(crate) fn show(
        &self,
        rows: &Range<usize>,
        look: impl FnOnce(&[f32], usize) -> Result<(), GenerateError>,
    ) -> Result<(), GenerateError> {
        look(rows_of(&self.values()?, rows, self.width)?, self.width)
    }
}

/// A range of rows of the values `[T', width]`.
///
/// # Errors
/// There are fewer rows.
fn rows_of<'v>(values: &'v [f32], rows: &Range<usize>, width: usize) -> Result<&'v [f32], GenerateError> {
    values.get(rows.start * width..rows.end * width).ok_or_else(|| {
        GenerateError::from(ModelError::Shape {
            what: "rows of a step".to_owned(),
            expected: format!("at least {} rows of {width}", rows.end),
            found: format!("{} values", values.len()),
        })
    })
}

/// The error of a step, for another sequence that was in it.
pub(crate) fn error_for_others(error: &GenerateError) -> GenerateError {
    match error {
        GenerateError::Cancelled => GenerateError::Cancelled,
        // It names the stage, which all of them need.
        GenerateError::Model(ModelError::Stage(fault)) => {
            GenerateError::Model(ModelError::Stage(Arc::clone(fault)))
        }
        other => GenerateError::Together(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every kind of output against every accessor: a mismatch is an error that names both kinds.
    #[test]
    fn every_output_is_taken_as_what_it_is_or_refused() {
        let row = [1.0f32, 2.0];
        let all = [
            StepOutput::Nothing,
            StepOutput::LastLogits(&row),
            StepOutput::AllLogits(&row),
            StepOutput::Embeddings(&row),
        ];
        assert_eq!(all.map(|one| one.logits().ok()), [Some(&[][..]), Some(&row[..]), Some(&row[..]), None]);
        assert_eq!(all.map(|one| one.last_logits().ok()), [Some(None), Some(Some(&row[..])), None, None]);
        assert_eq!(all.map(|one| one.embeddings().ok()), [None, None, None, Some(&row[..])]);
        let said = all[2].embeddings().unwrap_err().to_string();
        assert!(said.contains("logits of all rows") && said.contains("vectors"), "{said}");
    }

    #[test]
    fn rows_that_are_not_there_are_an_error_and_never_fewer() {
        let values = [0.0; 6];
        assert_eq!(
            OutputRows::AllLogits(1..3).among(&values, 2).unwrap(),
            StepOutput::AllLogits(&values[2..6])
        );
        let error = OutputRows::Embeddings(1..3).among(&values, 3).unwrap_err().to_string();
        assert!(error.contains("at least 3 rows of 3"), "{error}");
    }
}

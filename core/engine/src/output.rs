//! [`StepOutput`]: what a step gave a sequence; [`StepResults`]: what it gave all of its sequences.

use crate::error::GenerateError;
use menagerie_model::{Compute, ModelError, Rows};
use std::borrow::Cow;
use std::ops::Range;

/// What a step gave one of its sequences, whatever computed it. Who takes it says what it can do with ([`Self::logits`],
/// [`Self::last_logits`], [`Self::embeddings`]) and is refused anything else.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum StepOutput<'v> {
    /// No row: none is wanted before the last chunk of a prompt ([`crate::LogitRows`]).
    Nothing,
    /// Logits `[V]` after the newest token.
    LastLogits(&'v [f32]),
    /// Logits `[T', V]`, of every row of the step that wants some.
    AllLogits(&'v [f32]),
    /// A vector `[D]`, one of each row `[T, D]` without pooling, or the scores `[labels]` of a classifier.
    Embeddings(&'v [f32]),
}

impl<'v> StepOutput<'v> {
    /// Logits `[T', V]`, of one row or several; none if there is no row.
    ///
    /// # Errors
    /// [`GenerateError::Output`]: vectors.
    pub fn logits(self) -> Result<&'v [f32], GenerateError> {
        match self {
            Self::Nothing => Ok(&[]),
            Self::LastLogits(rows) | Self::AllLogits(rows) => Ok(rows),
            Self::Embeddings(_) => Err(self.mismatch("logits")),
        }
    }

    /// Logits `[V]` after the newest token; `None` if there is no row.
    ///
    /// # Errors
    /// [`GenerateError::Output`]: logits of all rows, vectors.
    pub fn last_logits(self) -> Result<Option<&'v [f32]>, GenerateError> {
        match self {
            Self::Nothing => Ok(None),
            Self::LastLogits(row) => Ok(Some(row)),
            Self::AllLogits(_) | Self::Embeddings(_) => Err(self.mismatch("logits of the last row")),
        }
    }

    /// A vector, or one of each row.
    ///
    /// # Errors
    /// [`GenerateError::Output`]: nothing, logits.
    pub fn embeddings(self) -> Result<&'v [f32], GenerateError> {
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

/// The place of a sequence among those of a step, and its row of logits `[V]`.
pub(crate) type LastRow<'v> = (usize, &'v [f32]);

/// What a step gave: for each sequence that took part its rows, or why it failed; it then holds what it held.
pub struct StepResults {
    rows: StepRows,
    parts: Vec<SequenceResult>,
}

/// One sequence in a step.
pub(crate) struct SequenceResult {
    /// Its place among the sequences the step was given.
    pub(crate) index: usize,
    /// Its rows, or why it failed.
    pub(crate) rows: Result<OutputRows, GenerateError>,
}

/// Which rows of a step are a sequence's, and what they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OutputRows {
    Nothing,
    LastLogits(Range<usize>),
    AllLogits(Range<usize>),
    Embeddings(Range<usize>),
}

/// Rows `[T', width]` where they can be read once more without being copied.
pub(crate) struct StepRows {
    storage: RowStorage,
    width: usize,
}

enum RowStorage {
    /// None were wanted.
    Empty,
    /// In host memory, as the backend keeps them.
    Backend(Rows, Compute),
    /// Read from a device.
    Host(Vec<f32>),
}

impl StepResults {
    /// What these parts have of `rows`.
    pub(crate) fn new(rows: StepRows, parts: Vec<SequenceResult>) -> Self {
        Self { rows, parts }
    }

    /// The same behind sequences that failed before it.
    pub(crate) fn with_failed(mut self, failed: Vec<SequenceResult>) -> Self {
        self.parts.splice(0..0, failed);
        self
    }

    /// Columns of the rows.
    pub(crate) fn width(&self) -> usize {
        self.rows.width
    }

    /// Sequences that took part, those that failed included.
    pub fn count(&self) -> usize {
        self.parts.len()
    }

    /// Shows the rows of logits after newest tokens, with the place of each sequence that has one, in order of the places.
    pub(crate) fn last_rows(&self, look: &mut dyn FnMut(&[LastRow])) {
        let Ok(values) = self.rows.values() else { return };
        let row = |part: &SequenceResult| match &part.rows {
            Ok(OutputRows::LastLogits(own)) => {
                Some((part.index, rows_of(&values, own, self.rows.width).ok()?))
            }
            _ => None,
        };
        let mut rows: Vec<_> = self.parts.iter().filter_map(row).collect();
        rows.sort_by_key(|(index, _)| *index);
        look(&rows);
    }

    /// Shows what the one sequence of the step got.
    ///
    /// # Errors
    /// Why it failed; what `take` returns; a sequence that had no part in the step.
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

    /// Shows what each sequence got, or why it failed, by its place among the sequences that the step was given.
    pub fn each(self, take: &mut dyn FnMut(usize, Result<StepOutput, GenerateError>)) {
        let values = self.rows.values();
        for SequenceResult { index, rows } in self.parts {
            let output = match (rows, &values) {
                (Err(error), _) => Err(error),
                (Ok(_), Err(error)) => Err(GenerateError::Together(error.to_string())),
                (Ok(own), Ok(values)) => own.among(values, self.rows.width),
            };
            take(index, output);
        }
    }
}

impl OutputRows {
    /// These of the values `[T', width]` of a step.
    fn among(self, values: &[f32], width: usize) -> Result<StepOutput<'_>, GenerateError> {
        Ok(match self {
            Self::Nothing => StepOutput::Nothing,
            Self::LastLogits(rows) => StepOutput::LastLogits(rows_of(values, &rows, width)?),
            Self::AllLogits(rows) => StepOutput::AllLogits(rows_of(values, &rows, width)?),
            Self::Embeddings(rows) => StepOutput::Embeddings(rows_of(values, &rows, width)?),
        })
    }
}

impl StepRows {
    /// No rows.
    pub(crate) fn none() -> Self {
        Self { storage: RowStorage::Empty, width: 0 }
    }

    /// One row that is known.
    pub(crate) fn of_one(row: Vec<f32>) -> Self {
        Self { width: row.len(), storage: RowStorage::Host(row) }
    }

    /// Rows that a forward gave.
    ///
    /// # Errors
    /// They cannot be read back.
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

    /// Shows some of the rows, and their width.
    ///
    /// # Errors
    /// There are fewer; what `look` returns.
    pub(crate) fn show(
        &self,
        rows: &Range<usize>,
        look: impl FnOnce(&[f32], usize) -> Result<(), GenerateError>,
    ) -> Result<(), GenerateError> {
        look(rows_of(&self.values()?, rows, self.width)?, self.width)
    }
}

/// These rows of values `[T', width]`.
///
/// # Errors
/// There are fewer.
fn rows_of<'v>(values: &'v [f32], rows: &Range<usize>, width: usize) -> Result<&'v [f32], GenerateError> {
    values.get(rows.start * width..rows.end * width).ok_or_else(|| {
        GenerateError::from(ModelError::Shape {
            what: "rows of a step".to_owned(),
            expected: format!("at least {} rows of {width}", rows.end),
            found: format!("{} values", values.len()),
        })
    })
}

/// The error of a step for another of the sequences in it.
pub(crate) fn error_for_others(error: &GenerateError) -> GenerateError {
    match error {
        GenerateError::Cancelled => GenerateError::Cancelled,
        other => GenerateError::Together(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each kind of output against each wish: what is not wanted is an error that names both.
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

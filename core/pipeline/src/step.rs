//! [`Step`]: what a step of several sequences gave.

use crate::error::GenerateError;
use menagerie_model::{Compute, ModelError, Rows};
use std::borrow::Cow;
use std::ops::Range;

/// What a step gave: logits, and for each sequence that took part its rows of them, or why it failed.
pub struct Step {
    pub(crate) logits: StepLogits,
    /// Columns of the logits.
    pub width: usize,
    /// The sequences that took part.
    pub parts: Vec<StepPart>,
}

/// One sequence in a step.
#[derive(Debug)]
pub struct StepPart {
    /// Its place among the sequences the step was given.
    pub index: usize,
    /// Its rows of the logits (none before the last chunk of a prompt), or why it failed; it then holds what it held.
    pub result: Result<Range<usize>, GenerateError>,
}

/// Logits `[T', V]` where they can be read once more without being copied.
pub(crate) enum StepLogits {
    /// No row wanted any.
    None,
    /// In host memory, as the backend keeps them.
    Rows(Rows, Compute),
    /// Read from a device.
    Host(Vec<f32>),
}

impl StepLogits {
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
    /// Logits `[T', V]` of all parts, one after the other; borrowed where they are in host memory.
    ///
    /// # Errors
    /// What the backend reports.
    pub fn values(&self) -> Result<Cow<'_, [f32]>, GenerateError> {
        Ok(self.logits.values()?)
    }
}

/// The error of a step for another of the sequences in it.
pub(crate) fn shared(error: &GenerateError) -> GenerateError {
    match error {
        GenerateError::Cancelled => GenerateError::Cancelled,
        other => GenerateError::Together(other.to_string()),
    }
}

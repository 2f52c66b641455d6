//! [`SequenceFailure`]: what went wrong with one sequence of a step.

use crate::ModelError;

/// What went wrong with one sequence of a step, while the rows of the others are right.
#[derive(Debug)]
pub struct SequenceFailure {
    /// Its place in the layout of the step.
    pub index: usize,
    /// Position of the row that is not usable, of this step or of one before it that was not waited for: nothing that
    /// the sequence holds from there on is.
    pub position: usize,
    /// What it is.
    pub error: ModelError,
}

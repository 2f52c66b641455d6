//! [`SequenceFailure`]: the failure of one sequence of a step.

use crate::ModelError;

/// The failure of one sequence of a step; the rows of the others are correct.
#[derive(Debug)]
pub struct SequenceFailure {
    /// Its place in the layout of the step.
    pub index: usize,
    /// Position of the first row that is not usable, of this step or of an earlier one that was not awaited: everything
    /// that the sequence holds from there on is unusable.
    pub position: usize,
    /// What it is.
    pub error: ModelError,
}

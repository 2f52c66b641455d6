//! [`HiddenRows`]: the rows of a model that its head for further tokens reads, from one step to the next.

use crate::rows::Rows;

/// The rows of a model that its head for further tokens reads ([`crate::NextnHead`]).
///
/// The head reads a token together with the row before it. The row before the first row of a step comes from an earlier
/// step, so the caller keeps it.
#[derive(Debug, Default)]
pub struct HiddenRows {
    /// For each sequence of the step the row `[D]` before its first one. `None`: the sequence begins there, or the row is not
    /// known; the block of the head then gets a row of zeros for the first token.
    pub before: Vec<Option<Vec<f32>>>,
    /// The rows of the step, `[T, D]`, once it is computed.
    pub after: Option<Rows>,
}

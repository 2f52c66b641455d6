//! [`HiddenRows`]: the rows that heads for further tokens read, from one step to the next.

use crate::rows::Rows;

/// The rows that heads for further tokens read ([`crate::NextnHead`]): the first head those of the model, each other one
/// those of the head before it.
///
/// A head reads a token together with the row before it. The row before the first row of a step comes from an earlier
/// step, so the caller keeps it.
#[derive(Debug, Default)]
pub struct HiddenRows {
    /// For each sequence of the step the rows before its first one, `[heads * D]`: what each head reads there. `None`: the
    /// sequence begins there, or the rows are not known; the blocks of the heads then get a row of zeros for the first
    /// token.
    pub before: Vec<Option<Vec<f32>>>,
    /// The rows of the step, `[T, D]` for each head, once it is computed.
    pub after: Vec<Rows>,
}

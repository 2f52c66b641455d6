//! [`StepInFlight`]: a step that was begun and whose logits arrive later.

use crate::Result;
use crate::cancellation::Cancellation;
use crate::compute::Compute;
use crate::failure::SequenceFailure;
use crate::rows::Rows;
use crate::state::StatePool;

/// A step after [`crate::Executor::begin`].
pub enum BegunStep {
    /// It is complete; its logits `[T', V]`.
    Complete(Rows),
    /// It is being computed.
    InFlight(Box<dyn StepInFlight>),
}

/// A step that is being computed. While it is in flight, other steps may begin and end, but none with its sequences, and
/// their states must not be read or changed. If it is dropped, it is still computed, and its logits are discarded.
pub trait StepInFlight: Send {
    /// Waits for the logits `[T', V]`, as [`crate::Executor::execute`] returns them.
    ///
    /// # Errors
    /// What a part returns, [`crate::ModelError::Cancelled`], or the error of an earlier step that this one depends on.
    fn finish(self: Box<Self>, ending: &mut StepEnding) -> Result<Rows>;
}

/// What a step in flight needs at its end.
pub struct StepEnding<'a> {
    /// Backend and arithmetic.
    pub compute: &'a Compute,
    /// The pool with the states of its sequences.
    pub states: &'a StatePool,
    /// Ends the wait from outside.
    pub cancelled: Cancellation<'a>,
    /// Collects the failures of single sequences, by their index in the layout of the step.
    pub failures: &'a mut Vec<SequenceFailure>,
}

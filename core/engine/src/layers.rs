//! The forward pass of a step of vectors: its rows through embedding and layers.

use crate::error::GenerateError;
use crate::output::StepRows;
use menagerie_model::{ModelError, Part, Rows, TransformContext, WeightGuard};
use std::sync::Arc;

/// Runs `model` on a step, and checks afterwards that the weights are still readable: pages that vanished from the
/// mapped file read as zeros.
///
/// # Errors
/// An error of the model; the weights are gone.
pub(crate) fn through_layers(
    mut context: TransformContext,
    guard: Option<&Arc<WeightGuard>>,
    model: impl FnOnce(&mut TransformContext) -> Result<Rows, ModelError>,
) -> Result<StepRows, GenerateError> {
    let (rows, sequences) = (context.layout.rows(), context.layout.sequences().len());
    let _span = tracing::debug_span!("step", rows, sequences).entered();
    let made = context.timed(Part::Step, model);
    check_weights(guard)?;
    Ok(StepRows::new(made?, context.compute)?)
}

/// Checks that the weights are still readable.
///
/// # Errors
/// They are gone.
pub(crate) fn check_weights(guard: Option<&Arc<WeightGuard>>) -> Result<(), ModelError> {
    guard.map_or(Ok(()), |guard| guard())
}

//! The forward pass of a step: its rows through embedding, layers and head, in one place for text and for vectors.

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
    if let Some(guard) = guard {
        guard()?;
    }
    Ok(StepRows::new(made?, context.compute)?)
}

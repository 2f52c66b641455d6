//! [`ModelHead`]: guesses of the head for further tokens that the model has.

use super::{DraftRequest, DraftSource, DraftToken, Drafter};
use crate::error::GenerateError;

/// Guesses of the model's own head for further tokens (multi-token prediction). The model must have been loaded with it.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct ModelHead;

impl DraftSource for ModelHead {
    fn start(&self, _: &DraftRequest) -> Result<Box<dyn Drafter>, GenerateError> {
        Ok(Box::new(NoGuesses))
    }

    fn is_model_head(&self) -> bool {
        true
    }
}

/// The guesses are made by the scheduler, which has the states of the head.
struct NoGuesses;

impl Drafter for NoGuesses {
    fn draft(&mut self, _: &[u32], _: usize) -> Vec<DraftToken> {
        Vec::new()
    }
}

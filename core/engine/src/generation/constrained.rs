//! How a generation takes a token, with a constraint or without one.

use super::Generation;
use crate::error::GenerateError;
use crate::request::Event;
use crate::sampling::{ConstraintPhase, SamplingError};
use crate::stopping::StopReason;

impl Generation {
    /// Takes a sampled token: into the chain, then into the text. Returns why the answer ends, if the token completes a
    /// stop string or the constrained answer.
    pub(super) fn take(
        &mut self,
        id: u32,
        sink: &mut dyn FnMut(Event),
    ) -> Result<Option<StopReason>, GenerateError> {
        self.tokens.push(id);
        let was_first = self.has_phase(|phase| matches!(phase, ConstraintPhase::First(_)));
        self.chain.accept(id)?;
        if was_first && self.has_phase(|phase| *phase == ConstraintPhase::Answer) {
            self.text.begin_answer(sink);
        }
        if let Some(string) = self.text.push(id, sink)? {
            return Ok(Some(StopReason::StopString(string)));
        }
        if self.has_phase(|phase| *phase == ConstraintPhase::Reasoning)
            && self.text.left_reasoning(id).map_err(SamplingError::from)?
        {
            self.text.begin_answer(sink);
            if let Some(constraint) = self.chain.constraint_mut() {
                constraint.begin_answer();
            }
        }
        let is_complete = self.chain.constraint().is_some_and(|constraint| constraint.is_complete());
        Ok(is_complete.then_some(StopReason::Complete))
    }

    fn has_phase(&self, is: impl Fn(&ConstraintPhase) -> bool) -> bool {
        self.chain.constraint().is_some_and(|constraint| is(constraint.phase()))
    }
}

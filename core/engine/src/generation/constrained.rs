//! How a generation takes a token, with a constraint or without one.

use super::Generation;
use crate::constraint::ConstraintScope;
use crate::error::GenerateError;
use crate::request::Event;
use crate::sampling::{ConstraintPhase, ConstraintStep, SamplingError};
use crate::stopping::StopReason;

impl Generation {
    /// Takes a sampled token: into the chain, then into the text. Returns why the answer ends, if the token completes a
    /// stop string or the constrained answer, or begins a line with too little indentation.
    pub(super) fn take(
        &mut self,
        id: u32,
        sink: &mut dyn FnMut(Event),
    ) -> Result<Option<StopReason>, GenerateError> {
        self.tokens.push(id);
        let is_marker = !self.is_behind_marker();
        self.chain.accept(id)?;
        if !is_marker {
            self.begin_text(sink);
        }
        if let Some(reason) = self.text.push(id, sink)? {
            return Ok(Some(reason));
        }
        if let Some(budget) = &mut self.budget {
            budget.take(self.text.reasoning_close());
        }
        self.leave_free_part(id, sink)?;
        self.stay_in_text(sink);
        if is_marker && self.chain.constraint().is_some_and(ConstraintStep::is_in_answer) {
            self.begin_text(sink);
        }
        let is_complete = self.chain.constraint().is_some_and(ConstraintStep::is_complete);
        Ok(is_complete.then_some(StopReason::Complete))
    }

    /// Whether a token that the constraint sees now is not one of a marker.
    fn is_behind_marker(&self) -> bool {
        self.chain.constraint().is_some_and(ConstraintStep::is_behind_marker)
    }

    /// Begins the constrained text of the answer, if it is the time.
    fn begin_text(&mut self, sink: &mut dyn FnMut(Event)) {
        let constraint = self.chain.constraint();
        let begins = |step: &ConstraintStep| step.scope() == ConstraintScope::Text && step.is_in_answer();
        if constraint.is_some_and(begins) {
            self.text.begin_answer(sink);
        }
    }

    /// In an answer that is a text or consists of calls: once it is a text, whatever looks like a call is text.
    fn stay_in_text(&mut self, sink: &mut dyn FnMut(Event)) {
        let is_open = |step: &ConstraintStep| {
            step.scope() == ConstraintScope::CallsOrText && *step.phase() == ConstraintPhase::Answer
        };
        if self.chain.constraint().is_some_and(is_open) {
            self.text.stay_in_text(sink);
        }
    }

    /// Begins the constrained part after the reasoning, or in a call.
    fn leave_free_part(&mut self, id: u32, sink: &mut dyn FnMut(Event)) -> Result<(), GenerateError> {
        let Some(constraint) = self.chain.constraint_mut() else { return Ok(()) };
        match constraint.phase() {
            ConstraintPhase::Reasoning if self.text.left_reasoning(id).map_err(SamplingError::from)? => {
                constraint.begin_answer().map_err(SamplingError::from)?;
            }
            ConstraintPhase::Free => {
                if let Some(written) = self.text.begun_call()
                    && !constraint.begin_call(written).map_err(SamplingError::from)?
                {
                    let note = "a call begins in a way that its format does not have: its arguments are not constrained";
                    sink(Event::Notice(note.to_owned()));
                }
            }
            _ => {}
        }
        Ok(())
    }
}

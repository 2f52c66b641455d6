//! [`ConstraintStep`]: drops the tokens that the constraint of an answer does not allow.

use super::{Candidates, LogitsStep, SamplingError};
use crate::constraint::{ConstraintError, ConstraintState};
use std::time::{Duration, Instant};

/// The part of a generation that its next token belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ConstraintPhase {
    /// Reasoning: every token except those that end an answer. The constraint does not see these tokens.
    Reasoning,
    /// The first token: one that the constraint allows, or one of these, which begin reasoning.
    First(Vec<u32>),
    /// The answer: only tokens that the constraint allows.
    Answer,
}

/// The first step of a chain with a constraint. An end token is allowed exactly where the answer is whole, so none is
/// while the model reasons.
pub(crate) struct ConstraintStep {
    state: Box<dyn ConstraintState>,
    phase: ConstraintPhase,
    /// Tokens that end an answer.
    ends: Vec<u32>,
    /// Time of computing which tokens are allowed, and of taking tokens.
    time: Duration,
}

impl ConstraintStep {
    /// A step for an answer in this phase.
    pub(crate) fn new(state: Box<dyn ConstraintState>, phase: ConstraintPhase, ends: &[u32]) -> Self {
        Self { state, phase, ends: ends.to_vec(), time: Duration::ZERO }
    }

    /// The phase of the next token.
    pub(crate) fn phase(&self) -> &ConstraintPhase {
        &self.phase
    }

    /// Ends the reasoning: the next token begins the answer.
    pub(crate) fn begin_answer(&mut self) {
        self.phase = ConstraintPhase::Answer;
    }

    /// Whether the answer is whole and no token may follow.
    pub(crate) fn is_complete(&self) -> bool {
        self.phase == ConstraintPhase::Answer && self.state.is_complete()
    }

    /// Tokens that must come next, if the answer has begun; at most `most`.
    pub(crate) fn forced(&mut self, most: usize) -> Vec<u32> {
        match self.phase {
            ConstraintPhase::Answer => self.timed(|state| state.forced(most)),
            ConstraintPhase::Reasoning | ConstraintPhase::First(_) => Vec::new(),
        }
    }

    fn timed<T>(&mut self, ask: impl FnOnce(&mut dyn ConstraintState) -> T) -> T {
        let start = Instant::now();
        let answer = ask(&mut *self.state);
        self.time += start.elapsed();
        answer
    }

    /// Time that it took so far.
    pub(crate) fn time(&self) -> Duration {
        self.time
    }

    fn retain(&mut self, candidates: &mut Candidates) -> Result<(), SamplingError> {
        let Self { state, phase, ends, .. } = self;
        let openings = match phase {
            ConstraintPhase::Reasoning => {
                candidates.drop_tokens(ends);
                return Ok(());
            }
            ConstraintPhase::First(openings) => openings.as_slice(),
            ConstraintPhase::Answer => &[],
        };
        if let Some(allowed) = state.allowed()? {
            candidates.retain_mask(allowed, openings);
        }
        if candidates.entries().is_empty() {
            return Err(ConstraintError::DeadEnd.into());
        }
        Ok(())
    }
}

impl LogitsStep for ConstraintStep {
    fn name(&self) -> &'static str {
        "constraint"
    }

    fn apply(&mut self, candidates: &mut Candidates, _history: &[u32]) -> Result<(), SamplingError> {
        let start = Instant::now();
        let retained = self.retain(candidates);
        self.time += start.elapsed();
        retained
    }

    fn accept(&mut self, token: u32) -> Result<(), SamplingError> {
        self.phase = match &self.phase {
            ConstraintPhase::Reasoning => return Ok(()),
            ConstraintPhase::First(openings) if openings.contains(&token) => {
                self.phase = ConstraintPhase::Reasoning;
                return Ok(());
            }
            ConstraintPhase::First(_) | ConstraintPhase::Answer => ConstraintPhase::Answer,
        };
        let start = Instant::now();
        let accepted = self.state.accept(token);
        self.time += start.elapsed();
        Ok(accepted?)
    }
}

//! [`ConstraintStep`]: drops the tokens that the constraint of an answer does not allow.

use super::led_state::LedState;
use super::{Candidates, LogitsStep, SamplingError};
use crate::constraint::{Constraint, ConstraintError, ConstraintScope, ConstraintState};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// The part of a generation that its next token belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ConstraintPhase {
    /// Before the first call: every token. The constraint does not see these tokens.
    Free,
    /// Reasoning: every token except those that end an answer. The constraint does not see these tokens.
    Reasoning,
    /// The beginning: what the constraint allows, or one of these sequences of tokens, which begin reasoning (what is left
    /// of them).
    First(Vec<Vec<u32>>),
    /// The answer: only tokens that the constraint allows.
    Answer,
}

/// What precedes the constrained part of an answer.
#[derive(Clone, Debug, Default)]
pub(crate) struct AnswerOpening {
    /// The text of the answer that the prompt has already.
    pub(crate) written: String,
    /// The tokens that come first, at the beginning and after the reasoning.
    pub(crate) markers: [Vec<u32>; 2],
}

/// The first step of a chain with a constraint. An end token is allowed exactly where the answer is whole, so none is
/// while the model reasons.
pub(crate) struct ConstraintStep {
    constraint: Arc<dyn Constraint>,
    opening: AnswerOpening,
    /// `None` before the constrained part, and where only reasoning can follow.
    state: Option<LedState>,
    phase: ConstraintPhase,
    /// Tokens that end an answer.
    ends: Vec<u32>,
    /// Ends what the constraint computes.
    cancel: Option<Arc<AtomicBool>>,
    /// Time of computing which tokens are allowed, and of taking tokens.
    time: Duration,
}

impl ConstraintStep {
    /// A step for an answer in this phase; the flag `cancel` ends what the constraint computes.
    ///
    /// # Errors
    /// The constraint cannot be started.
    pub(crate) fn new(
        constraint: Arc<dyn Constraint>,
        opening: AnswerOpening,
        phase: ConstraintPhase,
        ends: &[u32],
        cancel: Option<Arc<AtomicBool>>,
    ) -> Result<Self, ConstraintError> {
        let (ends, time) = (ends.to_vec(), Duration::ZERO);
        let mut step = Self { constraint, opening, state: None, phase, ends, cancel, time };
        if matches!(step.phase, ConstraintPhase::First(_) | ConstraintPhase::Answer) {
            let (marker, written) = (step.opening.markers[0].clone(), step.opening.written.clone());
            if !step.start(marker, &written)? {
                return Err(ConstraintError::Marker { marker: written });
            }
        }
        Ok(step)
    }

    /// Starts the constraint after written text; returns whether an answer may begin with it.
    fn start(&mut self, marker: Vec<u32>, written: &str) -> Result<bool, ConstraintError> {
        let mut state = self.constraint.start_after(written)?;
        if let (Some(state), Some(cancel)) = (&mut state, &self.cancel) {
            state.cancel_with(cancel);
        }
        self.state = state.map(|state| LedState::new(marker, state));
        Ok(self.state.is_some())
    }

    /// The phase of the next token.
    pub(crate) fn phase(&self) -> &ConstraintPhase {
        &self.phase
    }

    /// The part of the answer that it is about.
    pub(crate) fn scope(&self) -> ConstraintScope {
        self.constraint.scope()
    }

    /// Whether the next token belongs to the constrained part: neither to reasoning nor to a marker.
    pub(crate) fn is_in_answer(&self) -> bool {
        self.phase == ConstraintPhase::Answer && self.state.as_ref().is_some_and(LedState::is_behind_marker)
    }

    /// Whether the next token, if it is no reasoning, is not one of a marker.
    pub(crate) fn is_behind_marker(&self) -> bool {
        self.state.as_ref().is_some_and(LedState::is_behind_marker)
    }

    /// Ends the reasoning: the next token begins the answer, or its marker.
    ///
    /// # Errors
    /// The constraint cannot be started.
    pub(crate) fn begin_answer(&mut self) -> Result<(), ConstraintError> {
        self.phase = ConstraintPhase::Answer;
        let marker = self.opening.markers[1].clone();
        self.start(marker, "").map(drop)
    }

    /// Begins the constrained part after the text of a call that has begun. Returns whether a call may begin so; if not,
    /// the call stays free.
    ///
    /// # Errors
    /// The constraint cannot be started.
    pub(crate) fn begin_call(&mut self, written: &str) -> Result<bool, ConstraintError> {
        let start = Instant::now();
        let fits = self.start(Vec::new(), written)?;
        if fits {
            self.phase = ConstraintPhase::Answer;
        }
        self.time += start.elapsed();
        Ok(fits)
    }

    /// Whether the answer is whole and no token may follow.
    pub(crate) fn is_complete(&self) -> bool {
        let state = self.state.as_ref().filter(|_| self.phase == ConstraintPhase::Answer);
        state.is_some_and(ConstraintState::is_complete)
    }

    /// Tokens that must come next, if the answer has begun; at most `most`.
    pub(crate) fn forced(&mut self, most: usize) -> Vec<u32> {
        let Some(state) = self.state.as_mut().filter(|_| self.phase == ConstraintPhase::Answer) else {
            return Vec::new();
        };
        let start = Instant::now();
        let forced = state.forced(most);
        self.time += start.elapsed();
        forced
    }

    /// Time that it took so far.
    pub(crate) fn time(&self) -> Duration {
        self.time
    }

    fn retain(&mut self, candidates: &mut Candidates) -> Result<(), SamplingError> {
        let openings: Vec<u32> = match &self.phase {
            ConstraintPhase::Free => return Ok(()),
            ConstraintPhase::Reasoning => {
                candidates.drop_tokens(&self.ends);
                return Ok(());
            }
            ConstraintPhase::First(ways) => ways.iter().filter_map(|way| way.first().copied()).collect(),
            ConstraintPhase::Answer => Vec::new(),
        };
        match &mut self.state {
            Some(state) => {
                if let Some(allowed) = state.allowed()? {
                    candidates.retain_mask(allowed, &openings);
                }
            }
            None => candidates.retain_mask(&[], &openings),
        }
        if candidates.entries().is_empty() {
            return Err(ConstraintError::DeadEnd.into());
        }
        Ok(())
    }

    /// Takes a token at the beginning, which may still be one of reasoning.
    fn accept_first(&mut self, ways: &[Vec<u32>], token: u32) -> Result<(), ConstraintError> {
        let ways = ways.iter().filter_map(|way| way.strip_prefix(&[token]).map(<[u32]>::to_vec));
        let ways: Vec<Vec<u32>> = ways.collect();
        if ways.iter().any(Vec::is_empty) {
            self.phase = ConstraintPhase::Reasoning;
            self.state = None;
            return Ok(());
        }
        if ways.is_empty() {
            self.phase = ConstraintPhase::Answer;
            return self.accept_answer(token);
        }
        self.phase = ConstraintPhase::First(ways);
        // A token of a text that also begins reasoning begins reasoning, unless it is a marker of the text.
        let is_shared = self.scope() != ConstraintScope::Text
            || self.state.as_ref().is_some_and(|state| !state.is_behind_marker());
        let state = self.state.take();
        let Some(mut state) = state.filter(|_| is_shared) else { return Ok(()) };
        let allows = match state.allowed()? {
            Some(mask) => mask.get(token as usize / 32).is_some_and(|word| word >> (token % 32) & 1 == 1),
            None => true,
        };
        if allows {
            state.accept(token)?;
            self.state = Some(state);
        }
        Ok(())
    }

    fn accept_answer(&mut self, token: u32) -> Result<(), ConstraintError> {
        match &mut self.state {
            Some(state) => state.accept(token),
            None => Err(ConstraintError::Failed { reason: "a token was taken before it began".to_owned() }),
        }
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
        let start = Instant::now();
        let accepted = match self.phase.clone() {
            ConstraintPhase::Free | ConstraintPhase::Reasoning => return Ok(()),
            ConstraintPhase::First(ways) => self.accept_first(&ways, token),
            ConstraintPhase::Answer => self.accept_answer(token),
        };
        self.time += start.elapsed();
        Ok(accepted?)
    }
}

//! [`Drafting`]: the guesses of one answer, and how often they were right.

use super::acceptance::AcceptanceRates;
use super::{DraftSource, DraftToken, Drafter, MAX_DRAFT};
use crate::error::GenerateError;
use crate::sampling::ConstraintStep;
use crate::sequence::ProposedToken;

/// The grade of tokens that a constraint forces.
const FORCED: u8 = DraftToken::GRADES - 1;

/// Guesses the next tokens of an answer. Guesses are compared with the answer whether or not a step computes them.
pub(crate) struct Drafting {
    drafter: Box<dyn Drafter>,
    rates: AcceptanceRates,
    /// The newest draft, without the tokens that the answer has reached.
    rest: Vec<DraftToken>,
}

impl Drafting {
    /// Starts with an answer.
    ///
    /// # Errors
    /// The source cannot guess for another answer.
    pub(crate) fn new(source: &dyn DraftSource) -> Result<Self, GenerateError> {
        Ok(Self { drafter: source.start()?, rates: AcceptanceRates::default(), rest: Vec::new() })
    }

    /// Learns from the next token of the answer.
    pub(crate) fn came(&mut self, token: u32) {
        if self.rest.is_empty() {
            return;
        }
        let guess = self.rest.remove(0);
        self.rates.learn(guess.grade, guess.id == token);
        if guess.id != token {
            self.rest.clear();
        }
    }

    /// New guesses of the tokens after `tokens`: those that the constraint of the answer forces, or else
    /// those of the source.
    pub(crate) fn propose(
        &mut self,
        tokens: &[u32],
        constraint: Option<&mut ConstraintStep>,
    ) -> Vec<ProposedToken> {
        self.rest = self.drafter.draft(tokens, MAX_DRAFT);
        if let Some(constraint) = constraint {
            let forced = constraint.forced(MAX_DRAFT);
            if !forced.is_empty() {
                self.rest = forced.into_iter().map(|id| DraftToken { id, grade: FORCED }).collect();
            }
        }
        self.rest.truncate(MAX_DRAFT);
        let mut chance = 1.0;
        let proposed = self.rest.iter().map(|guess| {
            chance *= self.rates.rate(guess.grade);
            ProposedToken { id: guess.id, chance }
        });
        proposed.collect()
    }
}

//! [`Drafting`]: the guesses of one answer, and how often they were right.

use super::acceptance::AcceptanceRates;
use super::{
    DecodeCosts, DraftCost, DraftPace, DraftProspect, DraftRequest, DraftSource, DraftToken, Drafter,
    MAX_DRAFT,
};
use crate::error::GenerateError;
use crate::sampling::ConstraintStep;
use crate::sequence::{GuessChances, ProposedToken};
use std::time::Instant;

/// The grade of tokens that a constraint forces.
const FORCED: u8 = DraftToken::GRADES - 1;

/// What is guessed before the next step.
#[derive(Default)]
enum NextDraft {
    /// Nothing new.
    #[default]
    Nothing,
    /// These tokens.
    Forced(Vec<DraftToken>),
    /// At most this many tokens of the drafter, which take this time.
    Asked(usize, DraftCost),
}

/// Guesses the next tokens of an answer. Guesses are compared with the answer whether or not a step computes them.
pub(crate) struct Drafting {
    drafter: Box<dyn Drafter>,
    rates: AcceptanceRates,
    /// The newest draft, without the tokens that the answer has reached.
    rest: Vec<DraftToken>,
    /// What is guessed before the next step.
    next: NextDraft,
    /// Tokens of the answer so far.
    tokens: usize,
    /// The most tokens of the answer.
    max_tokens: usize,
    /// Whether the drafter was asked.
    has_begun: bool,
    /// Seconds of all steps when it was last asked, or at the first token.
    asked: f64,
    /// Whether the guesses are those of the model's own head.
    is_model_head: bool,
}

impl Drafting {
    /// Starts with an answer.
    ///
    /// # Errors
    /// The source cannot guess for another answer.
    pub(crate) fn new(source: &dyn DraftSource, request: &DraftRequest) -> Result<Self, GenerateError> {
        Ok(Self {
            drafter: source.start(request)?,
            rates: AcceptanceRates::default(),
            rest: Vec::new(),
            next: NextDraft::Nothing,
            tokens: 0,
            max_tokens: request.max_tokens.unwrap_or(usize::MAX),
            has_begun: false,
            asked: 0.0,
            is_model_head: source.is_model_head(),
        })
    }

    /// Learns from the next token of the answer.
    pub(crate) fn came(&mut self, token: u32) {
        self.tokens += 1;
        if self.rest.is_empty() {
            return;
        }
        let guess = self.rest.remove(0);
        self.rates.learn(guess.grade, guess.id == token);
        if guess.id != token {
            self.rest.clear();
        }
    }

    /// The guesses of the model's own head for the newest step, with their grades.
    pub(crate) fn head_guessed(&mut self, guesses: Vec<(u32, u8)>) {
        self.rest = guesses.into_iter().map(|(id, grade)| DraftToken { id, grade }).collect();
    }

    /// How often guesses of the model's own head are right, if it is to guess where there are no other guesses.
    pub(crate) fn question(&self) -> Option<GuessChances> {
        let asks = self.is_model_head && self.rest.is_empty();
        let by_grade = std::array::from_fn(|grade| self.rates.rate(grade as u8));
        asks.then(|| GuessChances { by_grade, next: self.rates.overall() })
    }

    /// Decides how the tokens after `tokens` are guessed before the next step: the constraint of the answer forces them,
    /// or the drafter is asked for as many as are expected to be worth their time.
    pub(crate) fn prepare(
        &mut self,
        tokens: &[u32],
        constraint: Option<&mut ConstraintStep>,
        costs: &DecodeCosts,
        pace: DraftPace,
    ) {
        // Nothing follows the last token of the answer.
        let useful = self.max_tokens.saturating_sub(self.tokens + 1).min(MAX_DRAFT);
        let forced = constraint.map(|constraint| constraint.forced(useful)).unwrap_or_default();
        if useful == 0 || !forced.is_empty() {
            let forced = forced.into_iter().map(|id| DraftToken { id, grade: FORCED }).collect();
            self.next = NextDraft::Forced(forced);
            return;
        }
        let cost = self.drafter.cost(tokens);
        let most = match pace {
            DraftPace::Always => useful,
            DraftPace::WhenFaster => self.prospect(cost, costs).guesses(costs).min(useful),
        };
        self.next = match most {
            0 => NextDraft::Forced(Vec::new()),
            _ => NextDraft::Asked(most, cost),
        };
        if most > 0 {
            self.drafter.announce(tokens, most);
        }
    }

    /// The guesses of the tokens after `tokens`, as they were prepared; `None` if none are.
    pub(crate) fn propose(&mut self, tokens: &[u32], costs: &mut DecodeCosts) -> Option<Vec<ProposedToken>> {
        let (mut rest, is_asked) = match std::mem::take(&mut self.next) {
            NextDraft::Nothing => return None,
            NextDraft::Forced(forced) => (forced, false),
            NextDraft::Asked(most, cost) => (self.ask(tokens, most, cost, costs), true),
        };
        rest.truncate(MAX_DRAFT);
        self.rest = rest;
        let is_predicted = is_asked && self.drafter.is_predicted();
        let mut chance = 1.0;
        let proposed = self.rest.iter().map(|guess| {
            chance *= self.rates.rate(guess.grade);
            ProposedToken { id: guess.id, chance, is_predicted }
        });
        Some(proposed.collect())
    }

    /// Why there are no more guesses, once.
    pub(crate) fn fault(&mut self) -> Option<String> {
        self.drafter.fault()
    }

    /// Asks the drafter.
    fn ask(
        &mut self,
        tokens: &[u32],
        most: usize,
        cost: DraftCost,
        costs: &mut DecodeCosts,
    ) -> Vec<DraftToken> {
        let start = Instant::now();
        let guesses = self.drafter.draft(tokens, most);
        let time = start.elapsed();
        #[cfg(test)]
        let time = time + super::tests::take_simulated();
        costs.guessed(time, cost.start);
        (self.asked, self.has_begun) = (costs.spent(), true);
        guesses
    }

    fn prospect(&mut self, cost: DraftCost, costs: &DecodeCosts) -> DraftProspect {
        if self.tokens <= 1 {
            self.asked = costs.spent();
        }
        DraftProspect {
            cost,
            rate: self.rates.overall(),
            tokens: self.tokens,
            left: self.max_tokens.saturating_sub(self.tokens),
            has_begun: self.has_begun,
            idle: costs.spent() - self.asked,
        }
    }
}

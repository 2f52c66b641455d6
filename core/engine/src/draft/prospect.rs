//! [`DraftProspect`]: whether a drafter that takes time is asked, and for how many guesses.

use super::costs::{DecodeCosts, LEARNING, LEAST_GAIN};
use super::{DraftCost, MAX_DRAFT};

/// The guesses of such a draft.
const LEARNING_GUESSES: usize = 2;

/// The rate of right guesses that is hoped for then.
const HOPED_RATE: f64 = 0.95;

/// The tokens that an answer is at least expected to go on for.
const LEAST_EXPECTED: usize = 32;

/// The least that guesses are expected to save until the end of an answer, in times of what it takes to start.
const LEAST_RETURN: f64 = 2.0;

/// What is expected of the guesses of a drafter.
pub(super) struct DraftProspect {
    /// What they take.
    pub(super) cost: DraftCost,
    /// The probability that a guess is right if those before it in the draft are.
    pub(super) rate: f64,
    /// Tokens of the answer so far.
    pub(super) tokens: usize,
    /// The most that can follow.
    pub(super) left: usize,
    /// Whether the drafter has guessed for this answer before.
    pub(super) has_begun: bool,
    /// Seconds of steps since then.
    pub(super) idle: f64,
}

impl DraftProspect {
    /// How many guesses to ask for. The time of the guesses counts for each step, and the time to start must be clearly
    /// less than what guesses save until the end of the answer, which is expected to be as long again as it is now.
    pub(super) fn guesses(&self, costs: &DecodeCosts) -> usize {
        if self.cost.is_free() {
            return MAX_DRAFT;
        }
        let Some((sequences, alone)) = costs.plain() else { return 0 };
        let start = self.cost.start.as_secs_f64() * sequences as f64;
        let (gain, count) = self.best(costs, self.rate);
        if count > 0 && !costs.has_lost(alone) {
            let expected = self.tokens.max(LEAST_EXPECTED).min(self.left) as f64;
            let is_worth = LEAST_RETURN * start <= expected * alone * (1.0 - 1.0 / gain);
            if is_worth && (self.has_begun || start == 0.0 || costs.may_invest(start)) {
                return count;
            }
        }
        let learning = start + self.cost.each.as_secs_f64() * LEARNING_GUESSES as f64;
        let is_due = learning <= LEARNING * self.idle;
        if is_due && self.best(costs, HOPED_RATE).1 > 0 { LEARNING_GUESSES } else { 0 }
    }

    /// The most that guesses are expected to gain if each is right with the probability `rate`, as a factor, and their
    /// number; no guesses if they gain too little.
    fn best(&self, costs: &DecodeCosts, rate: f64) -> (f64, usize) {
        let (mut best, mut count) = (LEAST_GAIN, 0);
        let Some((sequences, alone)) = costs.plain() else { return (best, count) };
        // The sequences of a step draft one after the other.
        let each = self.cost.each.as_secs_f64() * sequences as f64;
        let (mut tokens, mut chance, mut slowest) = (1.0, 1.0, alone);
        for more in 1..=MAX_DRAFT.min(self.left) {
            let Some(step) = costs.of_rows(sequences, alone, sequences * (1 + more)) else { break };
            slowest = slowest.max(step);
            chance *= rate;
            tokens += chance;
            let gain = tokens * alone / (slowest + each * more as f64);
            if gain > best {
                (best, count) = (gain, more);
            }
        }
        (best, count)
    }
}

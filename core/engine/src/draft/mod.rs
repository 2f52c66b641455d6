//! Drafts: guesses of the next tokens of an answer, which a step computes together with the last token.
//!
//! **Draw and compare.** The logits of a row have the same bits whatever else a step computes. So a step computes rows for
//! the last token and for the guesses after it. The sampling chain of the answer draws a token from the first row. This
//! token is the next one of the answer, whatever the guess was. If it equals the guess, the next row is the one that
//! decoding would compute next, and the chain draws from it, too. Tokens, texts and log probabilities are therefore the
//! same as without drafts. Rows of wrong guesses are behind the end of the sequence, and the next step overwrites them.
//! Recurrent states take no token back: they are copied before a step with guesses and put back after a wrong one, and
//! the next step computes the rows of the accepted tokens again (`Scheduler::settle`).
//!
//! **When.** Rows cost time. [`AcceptanceRates`] estimates which guesses are right, also from guesses that no step
//! computes, and [`DecodeCosts`] how long a step with more rows takes. A step has as many rows of guesses as make it
//! faster ([`DraftPace`]). A drafter that takes time itself says how much ([`Drafter::cost`]), and is asked only where its
//! guesses are expected to be worth that, too ([`DraftProspect`]).

mod acceptance;
mod costs;
mod drafting;
mod head;
mod lookup;
mod prediction;
mod prospect;

pub(crate) use costs::{DecodeCosts, PlainStep, PricedGuess};
pub(crate) use drafting::Drafting;
pub use head::ModelHead;
pub use lookup::PromptLookup;
pub use prediction::AnswerPrediction;

use crate::error::GenerateError;
use crate::setters::setters;
use prospect::DraftProspect;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// The most guesses of one sequence in a step.
pub const MAX_DRAFT: usize = 8;

/// Where guesses of the next tokens come from. It is shared by requests.
pub trait DraftSource: fmt::Debug + Send + Sync {
    /// Starts with the answer to a request.
    ///
    /// # Errors
    /// The source cannot guess for another answer.
    fn start(&self, request: &DraftRequest) -> Result<Box<dyn Drafter>, GenerateError>;

    /// Whether the guesses are those of the model's own head ([`ModelHead`]): the scheduler then makes them before a step,
    /// and the drafter makes none.
    fn is_model_head(&self) -> bool {
        false
    }
}

/// What a drafter has to know of the request whose answer it guesses.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct DraftRequest {
    /// The most tokens of the answer; `None` = until the context is full.
    pub max_tokens: Option<usize>,
    /// Only answers to requests with the same salt may share a state.
    pub cache_salt: Option<Arc<str>>,
    /// Cancels the answer when it is set. A drafter that takes time then returns what it has.
    pub cancel: Option<Arc<AtomicBool>>,
}

setters! { DraftRequest:
    with_max_tokens(max_tokens: impl Into<Option<usize>>),
    with_cache_salt(cache_salt: impl Into<Option<Arc<str>>>),
    with_cancel(cancel: impl Into<Option<Arc<AtomicBool>>>),
}

/// Guesses the next tokens of one answer.
pub trait Drafter: Send {
    /// At most `most` guesses of the tokens after `tokens`, which are the prompt and the answer so far. From one call to
    /// the next, tokens are only added.
    fn draft(&mut self, tokens: &[u32], most: usize) -> Vec<DraftToken>;

    /// Says that [`Self::draft`] will be called for these tokens before the next step. Drafters of one source, which all
    /// answers of a step announce before the first of them drafts, may compute their guesses together.
    fn announce(&mut self, tokens: &[u32], most: usize) {
        let _ = (tokens, most);
    }

    /// The time that guesses of the tokens after `tokens` are expected to take. The default is for drafters that take next
    /// to none.
    fn cost(&mut self, tokens: &[u32]) -> DraftCost {
        let _ = tokens;
        DraftCost::default()
    }

    /// Whether the newest draft comes from the text that the request expects as its answer.
    fn is_predicted(&self) -> bool {
        false
    }

    /// Why there are no more guesses of this answer, once.
    fn fault(&mut self) -> Option<String> {
        None
    }
}

/// The time that a draft is expected to take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DraftCost {
    /// Before the first guess: for tokens that the drafter has not seen yet. It may be spread over several drafts, of which
    /// only the last has guesses.
    pub start: Duration,
    /// For each guess.
    pub each: Duration,
}

impl DraftCost {
    /// Whether it takes no time worth counting.
    pub fn is_free(&self) -> bool {
        self.start.is_zero() && self.each.is_zero()
    }
}

/// A guess of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DraftToken {
    /// The token.
    pub id: u32,
    /// How certain the guess is, from 0 to [`Self::GRADES`] - 1. The engine measures how often the guesses of each grade
    /// are right.
    pub grade: u8,
}

impl DraftToken {
    /// The number of grades.
    pub const GRADES: u8 = 8;
}

/// When a step computes guesses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum DraftPace {
    /// When it is expected to be faster, from the times of earlier steps and from how many guesses were right.
    #[default]
    WhenFaster,
    /// Always, as many as there are; for tests and measurements.
    Always,
}

#[cfg(test)]
#[path = "pace_tests.rs"]
mod tests;

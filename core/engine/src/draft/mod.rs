//! Drafts: guesses of the next tokens of an answer, which a step computes together with the last token.
//!
//! **Draw and compare.** The logits of a row have the same bits whatever else a step computes. So a step computes rows for
//! the last token and for the guesses after it. The sampling chain of the answer draws a token from the first row. This
//! token is the next one of the answer, whatever the guess was. If it equals the guess, the next row is the one that
//! decoding would compute next, and the chain draws from it, too. Tokens, texts and log probabilities are therefore the
//! same as without drafts. Rows of wrong guesses are behind the end of the sequence, and the next step overwrites them.
//!
//! **When.** Rows cost time. [`AcceptanceRates`] estimates which guesses are right, also from guesses that no step
//! computes, and [`DecodeCosts`] how long a step with more rows takes. A step has as many rows of guesses as make it
//! faster ([`DraftPace`]).

mod acceptance;
mod costs;
mod drafting;
mod lookup;

pub(crate) use costs::DecodeCosts;
pub(crate) use drafting::Drafting;
pub use lookup::PromptLookup;

use crate::error::GenerateError;
use std::fmt;

/// The most guesses of one sequence in a step.
pub const MAX_DRAFT: usize = 8;

/// Where guesses of the next tokens come from. It is shared by requests.
pub trait DraftSource: fmt::Debug + Send + Sync {
    /// Starts an answer.
    ///
    /// # Errors
    /// The source cannot guess for another answer.
    fn start(&self) -> Result<Box<dyn Drafter>, GenerateError>;
}

/// Guesses the next tokens of one answer.
pub trait Drafter: Send {
    /// At most `most` guesses of the tokens after `tokens`, which are the prompt and the answer so far. From one call to
    /// the next, tokens are only added.
    fn draft(&mut self, tokens: &[u32], most: usize) -> Vec<DraftToken>;
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

//! [`Constraint`]: the tokens that an answer may consist of. The engine knows only this trait; grammars are compiled
//! elsewhere.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The part of an answer that a constraint is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConstraintScope {
    /// The text of the answer, after the reasoning. Such an answer calls no tools.
    #[default]
    Text,
    /// The whole answer after the reasoning, which consists of calls of tools.
    Calls,
    /// The whole answer after the reasoning, which is a text or consists of calls of tools.
    CallsOrText,
    /// An answer from the beginning of its first call on. Everything before it is free, and so is an answer without calls.
    CallsInText,
}

/// A set of answers, as sequences of tokens of one model: those that fit a grammar. It is shared by requests.
pub trait Constraint: fmt::Debug + Send + Sync {
    /// Starts an answer.
    ///
    /// # Errors
    /// [`ConstraintError::TooComplex`].
    fn start(&self) -> Result<Box<dyn ConstraintState>, ConstraintError>;

    /// Starts an answer whose first text is already written. `None`: no answer begins with this text.
    ///
    /// # Errors
    /// As [`Self::start`].
    fn start_after(&self, written: &str) -> Result<Option<Box<dyn ConstraintState>>, ConstraintError> {
        if written.is_empty() { self.start().map(Some) } else { Ok(None) }
    }

    /// The part of the answer that must fit.
    fn scope(&self) -> ConstraintScope {
        ConstraintScope::Text
    }
}

/// The position of an answer in its constraint.
pub trait ConstraintState: Send {
    /// The tokens that may come next: token `id` may if bit `id % 32` of word `id / 32` is set. Tokens past the words
    /// may not. An end token may come exactly where the answer is whole. `None`: every token may come.
    ///
    /// # Errors
    /// A limit is exceeded, or no token may come.
    fn allowed(&mut self) -> Result<Option<&[u32]>, ConstraintError>;

    /// Takes the next token of the answer, which is not an end token.
    ///
    /// # Errors
    /// The token may not come next, or a limit is exceeded.
    fn accept(&mut self, token: u32) -> Result<(), ConstraintError>;

    /// Whether the answer is whole and no token may follow.
    fn is_complete(&self) -> bool;

    /// Ends whatever is computed here once the flag is set, with [`ConstraintError::Cancelled`]. Called at the beginning,
    /// if the request has a flag. By default nothing is ended.
    fn cancel_with(&mut self, flag: &Arc<AtomicBool>) {
        let _ = flag;
    }

    /// Tokens that are known to come next, one after the other, as far as that costs little; at most `most`. They are
    /// guesses: [`Self::allowed`] decides. By default none.
    fn forced(&mut self, most: usize) -> Vec<u32> {
        let _ = most;
        Vec::new()
    }
}

/// An answer cannot be constrained any further; it ends with this error. The messages do not quote the answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConstraintError {
    /// A limit on time or memory is exceeded.
    #[error("the constraint of the answer is too complex ({limit}): use a simpler schema or grammar")]
    TooComplex {
        /// The limit.
        limit: String,
    },
    /// No continuation of the answer is possible with the tokens of the model.
    #[error(
        "no token of the model continues an answer that fits the constraint: check the schema or grammar"
    )]
    DeadEnd,
    /// A marker before the answer that the tokens of the model cannot write exactly.
    #[error(
        "the tokens of the model do not write {marker:?}, after which the answer begins: leave out the constraint"
    )]
    Marker {
        /// The marker.
        marker: String,
    },
    /// The token that ends the reasoning also begins the answer.
    #[error(
        "the token that ends the model's reasoning ({token}) also begins the answer, which the constraint has not seen: \
         generate again with another seed"
    )]
    ReasoningEnd {
        /// The token.
        token: u32,
    },
    /// The request was cancelled.
    #[error("the request was cancelled while its constraint was computed")]
    Cancelled,
    /// The state of the constraint and the answer do not agree.
    #[error("the constraint of the answer failed: {reason} (a defect: please report it)")]
    Failed {
        /// The reason.
        reason: String,
    },
}

//! [`CompiledGrammar`]: a constraint over llguidance's parser.

use crate::model_parts::ModelParts;
use crate::watched_flag::WatchedFlag;
use llguidance::api::StopReason;
use llguidance::toktrie::SimpleVob;
use llguidance::{Cancelled, Matcher};
use menagerie_engine::{Constraint, ConstraintError, ConstraintScope, ConstraintState};
use std::fmt;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

/// A compiled source. Each answer gets a copy of its parser at the beginning.
pub(crate) struct CompiledGrammar {
    what: &'static str,
    scope: ConstraintScope,
    beginning: Mutex<Matcher>,
    model: Arc<ModelParts>,
}

impl CompiledGrammar {
    pub(crate) fn new(
        what: &'static str,
        scope: ConstraintScope,
        beginning: Matcher,
        model: Arc<ModelParts>,
    ) -> Self {
        Self { what, scope, beginning: Mutex::new(beginning), model }
    }

    fn position(&self) -> GrammarPosition {
        let matcher = self.beginning.lock().unwrap_or_else(PoisonError::into_inner).deep_clone();
        GrammarPosition { matcher, mask: SimpleVob::default(), cancel: None }
    }
}

impl fmt::Debug for CompiledGrammar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CompiledGrammar({})", self.what)
    }
}

impl Constraint for CompiledGrammar {
    fn start(&self) -> Result<Box<dyn ConstraintState>, ConstraintError> {
        Ok(Box::new(self.position()))
    }

    fn start_after(&self, written: &str) -> Result<Option<Box<dyn ConstraintState>>, ConstraintError> {
        let Some(tokens) = self.model.controls.tokens_of(written, &self.model.vocabulary) else {
            return Ok(None);
        };
        let mut position = self.position();
        let taken =
            position.matcher.try_consume_tokens(&tokens).map_err(|error| named(&error.to_string()))?;
        Ok(if taken == tokens.len() { Some(Box::new(position)) } else { None })
    }

    fn scope(&self) -> ConstraintScope {
        self.scope
    }
}

/// The position of an answer in a grammar.
struct GrammarPosition {
    matcher: Matcher,
    mask: SimpleVob,
    /// The flag of the request, which ends the computations of the parser.
    cancel: Option<WatchedFlag>,
}

impl GrammarPosition {
    /// Computes with the parser, until it is done or the request is cancelled.
    fn computed<T>(&mut self, compute: impl FnOnce(&mut Matcher) -> T) -> T {
        let _watched = self.cancel.as_ref().map(WatchedFlag::watch);
        compute(&mut self.matcher)
    }
}

impl ConstraintState for GrammarPosition {
    fn allowed(&mut self) -> Result<Option<&[u32]>, ConstraintError> {
        let mask = self.computed(Matcher::compute_mask_or_eos);
        self.mask = mask.map_err(|error| named(&error.to_string()))?;
        Ok(Some(self.mask.as_slice()))
    }

    fn accept(&mut self, token: u32) -> Result<(), ConstraintError> {
        let was_allowed = (token as usize) < self.mask.len() && self.mask.is_allowed(token);
        self.computed(|matcher| matcher.consume_token(token)).map_err(|error| {
            match named(&error.to_string()) {
                // A token of the mask is refused only where a limit is exceeded on the way.
                ConstraintError::Failed { .. } if was_allowed => {
                    ConstraintError::TooComplex { limit: RULES.to_owned() }
                }
                other => other,
            }
        })
    }

    fn is_complete(&self) -> bool {
        self.matcher.stop_reason() == StopReason::NoExtension
    }

    fn forced(&mut self, most: usize) -> Vec<u32> {
        // The parser keeps what it finds for the next mask, so that nothing is computed twice.
        let mut tokens = self.computed(Matcher::compute_ff_tokens);
        tokens.truncate(most);
        tokens
    }

    fn cancel_with(&mut self, flag: &Arc<AtomicBool>) {
        self.matcher = self.matcher.deep_clone().into_cancellable();
        let handle = self.matcher.cancellation_handle();
        self.cancel = handle.map(|handle| WatchedFlag::new(Arc::clone(flag), handle));
    }
}

const RULES: &str = "its rules exceed the limit on the steps of a token";

/// An error of the parser by its name; its text may quote the answer.
fn named(error: &str) -> ConstraintError {
    let exceeded = |limit: &str| ConstraintError::TooComplex { limit: limit.to_owned() };
    if error.starts_with("lexer error") {
        exceeded("its terminals and regular expressions exceed the limit on states or steps")
    } else if error.starts_with("parser error") {
        exceeded(RULES)
    } else if error == Cancelled.to_string() {
        ConstraintError::Cancelled
    } else if error.starts_with("NoExtension") {
        ConstraintError::DeadEnd
    } else if error.starts_with("Parser Error") {
        ConstraintError::Failed { reason: "a token was taken that may not come next".to_owned() }
    } else {
        ConstraintError::Failed { reason: "the parser stopped".to_owned() }
    }
}

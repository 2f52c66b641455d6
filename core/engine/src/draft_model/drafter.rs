//! [`ModelDrafter`]: the guesses of a draft model for one answer.

use super::asked_draft::AskedDraft;
use super::states::{DraftKey, DraftStates};
use crate::draft::{DraftCost, DraftRequest, DraftToken, Drafter};
use crate::error::GenerateError;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The guesses for one answer, whose state is among those of the other answers.
pub(super) struct ModelDrafter {
    name: Arc<str>,
    states: Arc<Mutex<DraftStates>>,
    request: DraftRequest,
    /// Its state, from the first draft on.
    key: Option<DraftKey>,
    has_failed: bool,
    /// Why, until it is told.
    fault: Option<String>,
}

impl ModelDrafter {
    pub(super) fn new(name: Arc<str>, states: Arc<Mutex<DraftStates>>, request: &DraftRequest) -> Self {
        Self { name, states, request: request.clone(), key: None, has_failed: false, fault: None }
    }

    fn states(&self) -> MutexGuard<'_, DraftStates> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The draft that it asks for, with its state.
    fn asked(&mut self, tokens: &[u32], most: usize) -> Result<AskedDraft, GenerateError> {
        let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        states.check(tokens)?;
        let key = match self.key {
            Some(key) => key,
            None => *self.key.insert(states.begin(tokens, self.request.cache_salt.as_ref())?),
        };
        Ok(AskedDraft { key, tokens: tokens.to_vec(), most, cancel: self.request.cancel.clone() })
    }

    /// Ends its guesses.
    fn fail(&mut self, error: &GenerateError) {
        self.has_failed = true;
        self.end();
        self.fault = Some(format!(
            "the draft model {} guesses no more tokens of this answer, which goes on without: {error}",
            self.name
        ));
    }

    /// Ends its state, which later answers may start with.
    fn end(&mut self) {
        if let Some(key) = self.key.take() {
            self.states().end(key, !self.has_failed);
        }
    }
}

impl Drafter for ModelDrafter {
    fn draft(&mut self, tokens: &[u32], most: usize) -> Vec<DraftToken> {
        if self.has_failed {
            return Vec::new();
        }
        let asked = self.asked(tokens, most);
        match asked.and_then(|asked| self.states().draft(asked)) {
            Ok(guesses) => guesses,
            Err(GenerateError::Cancelled) => Vec::new(),
            Err(error) => {
                self.fail(&error);
                Vec::new()
            }
        }
    }

    fn announce(&mut self, tokens: &[u32], most: usize) {
        if self.has_failed {
            return;
        }
        match self.asked(tokens, most) {
            Ok(asked) => self.states().announce(asked),
            Err(error) => self.fail(&error),
        }
    }

    fn cost(&mut self, tokens: &[u32]) -> DraftCost {
        match self.has_failed {
            true => DraftCost::default(),
            false => self.states().cost(self.key, tokens, self.request.cache_salt.as_ref()),
        }
    }

    fn fault(&mut self) -> Option<String> {
        self.fault.take()
    }
}

impl Drop for ModelDrafter {
    fn drop(&mut self) {
        self.end();
    }
}

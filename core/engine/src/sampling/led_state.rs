//! [`LedState`]: a constraint behind a marker.

use crate::constraint::{ConstraintError, ConstraintState};

/// Tokens of a marker, which come first, and then the state of a constraint.
pub(crate) struct LedState {
    marker: Vec<u32>,
    /// The number of tokens of the marker that were taken.
    taken: usize,
    /// The token that may come next, as a mask.
    mask: Vec<u32>,
    state: Box<dyn ConstraintState>,
}

impl LedState {
    /// The state `state` behind the tokens `marker`.
    pub(crate) fn new(marker: Vec<u32>, state: Box<dyn ConstraintState>) -> Self {
        Self { marker, taken: 0, mask: Vec::new(), state }
    }

    /// Whether the whole marker was taken.
    pub(crate) fn is_behind_marker(&self) -> bool {
        self.taken == self.marker.len()
    }
}

impl ConstraintState for LedState {
    fn allowed(&mut self) -> Result<Option<&[u32]>, ConstraintError> {
        let Some(&next) = self.marker.get(self.taken) else { return self.state.allowed() };
        let word = next as usize / 32;
        self.mask.clear();
        self.mask.resize(word + 1, 0);
        self.mask[word] = 1 << (next % 32);
        Ok(Some(&self.mask))
    }

    fn accept(&mut self, token: u32) -> Result<(), ConstraintError> {
        match self.marker.get(self.taken) {
            None => self.state.accept(token),
            Some(next) if *next == token => {
                self.taken += 1;
                Ok(())
            }
            Some(_) => {
                Err(ConstraintError::Failed { reason: "a token was taken that is no marker".to_owned() })
            }
        }
    }

    fn is_complete(&self) -> bool {
        self.is_behind_marker() && self.state.is_complete()
    }

    fn forced(&mut self, most: usize) -> Vec<u32> {
        match self.marker.get(self.taken..) {
            Some(rest) if !rest.is_empty() => rest.iter().copied().take(most).collect(),
            _ => self.state.forced(most),
        }
    }
}

//! [`AfterMarker`]: a constraint that begins in the middle of an answer.

use menagerie_engine::{Constraint, ConstraintError, ConstraintState};
use std::sync::Arc;

/// Every token may come until one of the markers was taken; what follows fits another constraint.
#[derive(Debug)]
pub(crate) struct AfterMarker {
    markers: Arc<[u32]>,
    inner: Arc<dyn Constraint>,
}

impl AfterMarker {
    pub(crate) fn new(markers: &[u32], inner: Arc<dyn Constraint>) -> Self {
        Self { markers: markers.into(), inner }
    }
}

impl Constraint for AfterMarker {
    fn start(&self) -> Result<Box<dyn ConstraintState>, ConstraintError> {
        let (markers, inner) = (Arc::clone(&self.markers), Arc::clone(&self.inner));
        Ok(Box::new(MarkerState { markers, inner, begun: None }))
    }
}

struct MarkerState {
    markers: Arc<[u32]>,
    inner: Arc<dyn Constraint>,
    /// The state of the inner constraint, after a marker.
    begun: Option<Box<dyn ConstraintState>>,
}

impl ConstraintState for MarkerState {
    fn allowed(&mut self) -> Result<Option<&[u32]>, ConstraintError> {
        match &mut self.begun {
            Some(state) => state.allowed(),
            None => Ok(None),
        }
    }

    fn accept(&mut self, token: u32) -> Result<(), ConstraintError> {
        match &mut self.begun {
            Some(state) => state.accept(token)?,
            None if self.markers.contains(&token) => self.begun = Some(self.inner.start()?),
            None => {}
        }
        Ok(())
    }

    fn is_complete(&self) -> bool {
        self.begun.as_ref().is_some_and(|state| state.is_complete())
    }
}

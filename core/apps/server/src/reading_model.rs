//! [`ReadingModel`]: a model on a thread that reads a request.

use crate::fault::ApiFault;
use crate::model::{EngineModel, EngineText};
use menagerie_openai::RequestReader;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// A model on a thread that reads a request.
pub(crate) struct ReadingModel<'a> {
    model: &'a EngineModel,
    cancel: &'a Arc<AtomicBool>,
}

impl<'a> ReadingModel<'a> {
    /// For a request that this flag cancels.
    pub(crate) fn new(model: &'a EngineModel, cancel: &'a Arc<AtomicBool>) -> Self {
        Self { model, cancel }
    }

    /// What it needs to answer.
    pub(crate) fn text(&self) -> Result<ReadingText<'a>, ApiFault> {
        Ok(ReadingText { text: self.model.text()?, cancel: self.cancel })
    }

    /// The model.
    pub(crate) fn model(&self) -> &'a EngineModel {
        self.model
    }
}

/// What a model needs to answer, while a request is read.
pub(crate) struct ReadingText<'a> {
    text: &'a EngineText,
    cancel: &'a Arc<AtomicBool>,
}

impl Deref for ReadingText<'_> {
    type Target = EngineText;

    fn deref(&self) -> &EngineText {
        self.text
    }
}

impl ReadingText<'_> {
    /// The reader of bodies. Constraints are not waited for once the request is cancelled.
    pub(crate) fn requests(&self) -> RequestReader<'_> {
        let mut requests = self.text.requests();
        requests.defaults.cancel = Some(Arc::clone(self.cancel));
        requests
    }
}

//! [`RunningModel`]: a model with its thread and its adapters, as long as the server keeps it.

use crate::model::EngineModel;
use crate::worker::{EngineJob, WorkerThread};
use std::sync::Arc;
use std::time::Instant;

/// A model that answers.
pub(crate) struct RunningModel {
    pub(crate) base: Arc<EngineModel>,
    /// The model with each of its adapters.
    pub(crate) adapted: Vec<(String, Arc<EngineModel>)>,
    pub(crate) thread: WorkerThread,
    /// Memory that it needs.
    pub(crate) bytes: u64,
    /// What identified its files when it was opened.
    pub(crate) stamp: Option<u64>,
    /// When it was used last.
    pub(crate) used: Instant,
}

impl RunningModel {
    /// The model, or the model with an adapter.
    pub(crate) fn model(&self, adapter: Option<&str>) -> Option<&Arc<EngineModel>> {
        match adapter {
            None => Some(&self.base),
            Some(name) => self.adapted.iter().find(|(known, _)| known == name).map(|(_, model)| model),
        }
    }

    /// Whether a request has it. Requests hold it until their answer is complete, and get it only through the table of
    /// models, so nobody can take a model that is found to be free while the table is locked.
    pub(crate) fn is_busy(&self) -> bool {
        let all = std::iter::once(&self.base).chain(self.adapted.iter().map(|(_, model)| model));
        all.into_iter().any(|model| Arc::strong_count(model) > 1)
    }

    /// Cancels its requests.
    pub(crate) fn cancel(&self) {
        // A model whose thread is gone has nothing to cancel.
        let _ = self.base.worker.send(EngineJob::CancelAll);
    }

    /// Ends it, and waits until its memory is free. Nobody may have it any more.
    pub(crate) fn end(self) {
        let Self { base, adapted, thread, .. } = self;
        drop((base, adapted));
        // The thread ends with the last sender of jobs. One that panicked has reported it.
        let _ = thread.join();
    }
}

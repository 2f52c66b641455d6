//! [`ModelPuller`]: downloads models for clients.

use crate::library::LibraryError;
use std::sync::Arc;
use tokio::sync::watch;

/// Downloads models.
pub trait ModelPuller: Send + Sync {
    /// Downloads what is missing of a model, on a thread of its own. It reports its progress to `meter`, and ends soon after
    /// the last waiting client has disconnected; the downloaded part is kept for the next download.
    ///
    /// # Errors
    /// The name is no model, or it cannot be downloaded.
    fn pull(&self, name: &str, meter: &PullMeter) -> Result<(), LibraryError>;
}

/// How far a download is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PullState {
    /// The step that is done now.
    pub(crate) step: String,
    /// Bytes of the step, if it has any.
    pub(crate) total: Option<u64>,
    /// Those of them that are done.
    pub(crate) done: u64,
    /// How it ended.
    pub(crate) end: Option<PullEnd>,
}

/// How a download ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PullEnd {
    /// The model is there.
    Done,
    /// All clients that waited for it have disconnected.
    Unwanted,
    /// The reason why it failed.
    Failed(String),
}

/// The reports of a download, and whether somebody waits for it.
#[derive(Clone, Debug)]
pub struct PullMeter(Arc<watch::Sender<PullState>>);

impl PullMeter {
    pub(crate) fn new(state: Arc<watch::Sender<PullState>>) -> Self {
        Self(state)
    }

    /// A step begins, with these bytes, if it has any, of which `done` are there already.
    pub fn step(&self, what: &str, total: Option<u64>, done: u64) {
        self.0.send_modify(|state| {
            what.clone_into(&mut state.step);
            (state.total, state.done) = (total, done);
        });
    }

    /// More bytes of the step are done.
    pub fn advance(&self, bytes: u64) {
        self.0.send_modify(|state| state.done = state.done.saturating_add(bytes));
    }

    /// Whether a client waits for it.
    pub fn is_wanted(&self) -> bool {
        self.0.receiver_count() > 0
    }
}

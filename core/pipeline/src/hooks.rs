//! [`PipelineHooks`]: everything that is called while a pipeline works.

use crate::lifecycle::PipelineLifecycle;
use menagerie_model::{Hooks, LayerHook, Trace};
use std::sync::Arc;

/// What is called while a pipeline works: around layers, and at the beginning and end of requests.
#[derive(Clone, Default)]
pub struct PipelineHooks {
    /// Called around layers, in order.
    pub layers: Hooks,
    /// Told of requests, in order.
    pub lifecycles: Vec<Arc<dyn PipelineLifecycle>>,
    /// Where times are noted; absent = nowhere.
    pub trace: Option<Arc<Trace>>,
}

impl PipelineHooks {
    /// Hooks of layers alone.
    pub fn of_layers(hooks: impl IntoIterator<Item = Arc<dyn LayerHook>>) -> Self {
        Self { layers: hooks.into_iter().collect(), ..Self::default() }
    }
}

impl From<Vec<Arc<dyn LayerHook>>> for PipelineHooks {
    fn from(hooks: Vec<Arc<dyn LayerHook>>) -> Self {
        Self::of_layers(hooks)
    }
}

//! [`PipelineHooks`]: everything that is called while a pipeline works.

mod capture;
mod copies;
mod lifecycle;
mod named;
mod profile;
mod relay;
mod scalings;
mod steering;

pub use capture::{Capture, CaptureOptions, CaptureSummary};
pub use copies::{HookTarget, RecipeOrigin, copied_hook};
pub use lifecycle::{
    Hookable, PipelineLifecycle, RequestArrival, RequestEnd, RequestId, RequestKind, RequestProgress,
    RequestStart, StepReport,
};
pub use named::{HOST_OPTIONS, HookKind, HookSite, NamedHook};
pub use profile::{LayerProfile, PhaseProfile, RequestSpans, write_trace};
pub(crate) use relay::Relay;
pub use relay::{RelayHeader, RelayOptions, RelaySequence, RelayedRows};
pub use scalings::ScalingLog;
pub use steering::Steering;

use crate::disk_cache::DiskCacheCounts;
use crate::stats::SchedulerCounts;
use menagerie_model::{Hooks, LayerHook, Trace};
use std::sync::Arc;

/// What is called while a pipeline works: around layers, and at the start and end of requests.
#[derive(Clone, Default)]
pub struct PipelineHooks {
    /// Called around layers, in order.
    pub layers: Hooks,
    /// Lifecycles to notify of requests, in order.
    pub lifecycles: Vec<Arc<dyn PipelineLifecycle>>,
    /// Where times are recorded; `None` = nowhere.
    pub trace: Option<Arc<Trace>>,
}

impl PipelineHooks {
    /// Reports a step.
    pub(crate) fn stepped(&self, report: &StepReport) {
        self.lifecycles.iter().for_each(|one| one.stepped(report));
    }

    /// Reports what a scheduler has done.
    pub(crate) fn counted(&self, done: &SchedulerCounts) {
        self.lifecycles.iter().for_each(|one| one.counted(done));
    }

    /// Reports what a disk cache has done.
    pub(crate) fn disk_counted(&self, done: &DiskCacheCounts) {
        self.lifecycles.iter().for_each(|one| one.disk_counted(done));
    }

    /// Only hooks around layers.
    pub fn of_layers(hooks: impl IntoIterator<Item = Arc<dyn LayerHook>>) -> Self {
        Self { layers: hooks.into_iter().collect(), ..Self::default() }
    }
}

impl From<Vec<Arc<dyn LayerHook>>> for PipelineHooks {
    fn from(hooks: Vec<Arc<dyn LayerHook>>) -> Self {
        Self::of_layers(hooks)
    }
}

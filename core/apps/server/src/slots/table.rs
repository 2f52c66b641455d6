//! [`SlotTable`]: all models of a server with their states.

use crate::fault::ApiFault;
use crate::library::{LibraryModel, LoadMeter};
use crate::running_model::RunningModel;
use menagerie::engine::Metrics;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The state of a model.
pub(super) enum SlotState {
    /// It is not in memory.
    Absent,
    /// It is being opened, or waits for it.
    Loading(LoadMeter),
    /// It answers.
    Ready(RunningModel),
    /// It is being dropped.
    Draining,
    /// It could not be opened, and is not tried again before this time.
    Failed(ApiFault, Instant),
}

impl SlotState {
    /// Its name for clients.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Absent => "absent",
            Self::Loading(_) => "loading",
            Self::Ready(_) => "ready",
            Self::Draining => "draining",
            Self::Failed(..) => "failed",
        }
    }
}

/// A model of a server.
pub(super) struct ModelSlot {
    pub(super) id: String,
    pub(super) aliases: Vec<String>,
    /// Names of its adapters.
    pub(super) adapters: Vec<String>,
    /// Whether the library can open it again after it was dropped.
    pub(super) is_in_library: bool,
    /// Whether it is never dropped.
    pub(super) is_pinned: bool,
    /// Its counters, which go on when it is opened again.
    pub(super) metrics: Arc<Metrics>,
    pub(super) state: SlotState,
}

impl ModelSlot {
    /// A model of the library that is not in memory.
    pub(super) fn absent(model: LibraryModel) -> Self {
        let LibraryModel { id, aliases, adapters } = model;
        Self {
            id,
            aliases,
            adapters,
            is_in_library: true,
            is_pinned: false,
            metrics: Arc::default(),
            state: SlotState::Absent,
        }
    }

    /// Its id and its other names.
    pub(super) fn names(&self) -> impl Iterator<Item = &String> {
        std::iter::once(&self.id).chain(&self.aliases)
    }

    /// Whether it may be dropped when nobody uses it.
    pub(super) fn is_droppable(&self) -> bool {
        self.is_in_library && !self.is_pinned
    }

    /// Takes the running model out, if there is one.
    pub(super) fn take_running(&mut self, next: SlotState) -> Option<RunningModel> {
        match std::mem::replace(&mut self.state, next) {
            SlotState::Ready(running) => Some(running),
            other => {
                self.state = other;
                None
            }
        }
    }
}

/// All models.
#[derive(Default)]
pub(super) struct SlotTable {
    pub(super) slots: Vec<ModelSlot>,
    /// Models that were replaced, until their last request has ended.
    pub(super) retired: Vec<RunningModel>,
}

impl SlotTable {
    /// The place of the model with this name, and the adapter that the name asks for.
    pub(super) fn find(&self, name: &str) -> Result<(usize, Option<String>), ApiFault> {
        let place = |name: &str| self.slots.iter().position(|slot| slot.names().any(|known| known == name));
        if let Some(at) = place(name) {
            return Ok((at, None));
        }
        if let Some((base, adapter)) = name.rsplit_once(':')
            && let Some((at, slot)) = place(base).and_then(|at| Some((at, self.slots.get(at)?)))
        {
            if slot.adapters.iter().any(|known| known == adapter) {
                return Ok((at, Some(adapter.to_owned())));
            }
            let known = match slot.adapters.is_empty() {
                true => "it has none".to_owned(),
                false => format!("it has: {}", slot.adapters.join(", ")),
            };
            let reason = format!("the model {base} has no adapter {adapter:?}; {known}");
            return Err(ApiFault::new(404, reason).with_param("model").with_code("model_not_found"));
        }
        let known: Vec<&str> = self.slots.iter().map(|slot| slot.id.as_str()).collect();
        let reason = format!("there is no model {name:?}; there are: {}", known.join(", "));
        Err(ApiFault::new(404, reason).with_param("model").with_code("model_not_found"))
    }

    /// The model with this id.
    pub(super) fn slot(&mut self, id: &str) -> Option<&mut ModelSlot> {
        self.slots.iter_mut().find(|slot| slot.id == id)
    }

    /// A running model is replaced: its requests go on, and new ones open it again.
    pub(super) fn retire(&mut self, at: usize) {
        let running = self.slots.get_mut(at).and_then(|slot| slot.take_running(SlotState::Absent));
        self.retired.extend(running);
    }

    /// Memory of all models, those included that are about to end.
    pub(super) fn bytes(&self) -> u64 {
        let running = self.slots.iter().filter_map(|slot| match &slot.state {
            SlotState::Ready(running) => Some(running),
            _ => None,
        });
        running.chain(&self.retired).map(|running| running.bytes).fold(0, u64::saturating_add)
    }

    /// Ids and memory of the models that are not dropped for another one.
    pub(super) fn kept(&self) -> (Vec<String>, u64) {
        let kept = self.slots.iter().filter_map(|slot| match &slot.state {
            SlotState::Ready(running) if !slot.is_droppable() || running.is_busy() => {
                Some((slot.id.clone(), running.bytes))
            }
            _ => None,
        });
        let retired = self.retired.iter().map(|running| (running.base.id.clone(), running.bytes));
        let (ids, bytes): (Vec<String>, Vec<u64>) = kept.chain(retired).unzip();
        (ids, bytes.into_iter().fold(0, u64::saturating_add))
    }

    /// Takes the idle model that was used longest ago.
    pub(super) fn take_idle(&mut self) -> Option<(String, RunningModel)> {
        let idle = self.slots.iter_mut().filter_map(|slot| match &slot.state {
            SlotState::Ready(running) if slot.is_droppable() && !running.is_busy() => {
                Some((running.used, slot))
            }
            _ => None,
        });
        let (_, slot) = idle.min_by_key(|(used, _)| *used)?;
        Some((slot.id.clone(), slot.take_running(SlotState::Draining)?))
    }

    /// Takes the models that nobody has used for this time, those that have failed and can be opened again, and the
    /// replaced ones that nobody has.
    pub(super) fn take_unused(&mut self, idle: Option<Duration>) -> Vec<(Option<String>, RunningModel)> {
        let mut taken = Vec::new();
        let (busy, free) = std::mem::take(&mut self.retired).into_iter().partition(RunningModel::is_busy);
        self.retired = busy;
        taken.extend(Vec::into_iter(free).map(|running| (None, running)));
        for slot in &mut self.slots {
            let (is_droppable, is_in_library) = (slot.is_droppable(), slot.is_in_library);
            let SlotState::Ready(running) = &mut slot.state else { continue };
            if running.is_busy() {
                running.used = Instant::now();
                continue;
            }
            let has_failed = is_in_library && running.base.worker.failure().is_some();
            if has_failed || is_droppable && idle.is_some_and(|idle| running.used.elapsed() >= idle) {
                let id = slot.id.clone();
                taken.extend(slot.take_running(SlotState::Draining).map(|running| (Some(id), running)));
            }
        }
        taken
    }
}

//! [`ModelSlots`]: the models of a server, opened when a request names them and dropped when memory is needed.
//!
//! A mutex guards the table of states. One thread, the keeper, opens and drops models, so there is one load at a time and
//! no two decisions about memory at once; requests change a state only from absent to loading, and wait.

mod budget;
mod keeper;
mod reload;
mod table;

use crate::event_log::EventLog;
use crate::fault::ApiFault;
use crate::library::{LoadMeter, ModelLibrary};
use crate::model::EngineModel;
use crate::model_card::ModelCard;
use crate::running_model::RunningModel;
use crate::worker::{AdmittedRequests, RequestClass};
use keeper::KeeperCommand;
pub(crate) use keeper::SlotKeeper;
use menagerie::engine::Metrics;
use menagerie::registry::Environment;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use table::{ModelSlot, SlotState, SlotTable};
use tokio::sync::{oneshot, watch};

/// The limits of the models of a server.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SlotLimits {
    /// Bytes of memory for all models; `None` = no limit.
    pub(crate) memory: Option<u64>,
    /// After this time without a request a model is dropped.
    pub(crate) idle: Option<Duration>,
    /// The most requests of a model that wait beside those that run, and of all that wait for models.
    pub(crate) queue: usize,
}

/// The models of a server.
pub(crate) struct ModelSlots {
    table: Mutex<SlotTable>,
    library: Option<Arc<dyn ModelLibrary>>,
    limits: SlotLimits,
    log: EventLog,
    commands: Mutex<Sender<KeeperCommand>>,
    /// Changes with each state.
    changes: watch::Sender<u64>,
    /// Requests that wait for models.
    waiting: Arc<AtomicUsize>,
    is_closing: AtomicBool,
}

/// A model that is asked for.
pub(crate) enum SlotAnswer {
    /// It answers.
    Ready(Arc<EngineModel>),
    /// It is being opened.
    Loading(LoadingModel),
}

/// A model that is being opened.
#[derive(Clone, Debug)]
pub(crate) struct LoadingModel {
    pub(crate) id: String,
    pub(crate) meter: LoadMeter,
}

/// What a client sees of a model.
pub(crate) struct SlotView {
    pub(crate) id: String,
    pub(crate) aliases: Vec<String>,
    pub(crate) adapters: Vec<String>,
    pub(crate) state: &'static str,
    /// While it is being opened.
    pub(crate) percent: Option<u32>,
    /// Why it could not be opened.
    pub(crate) reason: Option<String>,
    /// What its file says, while it is in memory.
    pub(crate) card: Option<ModelCard>,
    /// The most tokens of a sequence, while it is in memory.
    pub(crate) context: Option<usize>,
    /// What it can do, while it is in memory.
    pub(crate) abilities: Option<Vec<&'static str>>,
    /// Its requests that run or wait.
    pub(crate) open: usize,
    /// The memory that it needs, while it is in memory.
    pub(crate) bytes: Option<u64>,
    pub(crate) metrics: Arc<Metrics>,
}

impl ModelSlots {
    fn lock(&self) -> MutexGuard<'_, SlotTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the requests that wait.
    fn changed(&self) {
        self.changes.send_modify(|number| *number += 1);
    }

    fn command(&self, command: KeeperCommand) -> Result<(), ApiFault> {
        let commands = self.commands.lock().unwrap_or_else(PoisonError::into_inner);
        commands.send(command).map_err(|_| ApiFault::shutting_down())
    }

    /// The model of this name. If it is not in memory, its load begins.
    pub(crate) fn get(&self, name: &str) -> Result<SlotAnswer, ApiFault> {
        if self.is_closing.load(Ordering::Relaxed) {
            return Err(ApiFault::shutting_down());
        }
        let mut table = self.lock();
        let (at, adapter) = table.find(name)?;
        if self.is_outdated(table.slots.get(at)) {
            table.retire(at);
        }
        let Some(slot) = table.slots.get_mut(at) else { return Err(ApiFault::shutting_down()) };
        let loading = |meter: LoadMeter| SlotAnswer::Loading(LoadingModel { id: slot.id.clone(), meter });
        match &mut slot.state {
            SlotState::Ready(running) => {
                running.used = Instant::now();
                let model = running.model(adapter.as_deref()).map(Arc::clone);
                model.map(SlotAnswer::Ready).ok_or_else(|| ApiFault::of_panic("an adapter is not loaded"))
            }
            SlotState::Loading(meter) => Ok(loading(meter.clone())),
            SlotState::Draining => Ok(loading(LoadMeter::default())),
            SlotState::Failed(fault, until) if Instant::now() < *until => Err(fault.clone()),
            SlotState::Absent | SlotState::Failed(..) => {
                self.command(KeeperCommand::Load(slot.id.clone()))?;
                let meter = LoadMeter::default();
                let answer = loading(meter.clone());
                slot.state = SlotState::Loading(meter);
                Ok(answer)
            }
        }
    }

    /// The model of this name, if it is in memory; nothing is opened.
    pub(crate) fn loaded(&self, name: &str) -> Result<Arc<EngineModel>, ApiFault> {
        let table = self.lock();
        let (at, adapter) = table.find(name)?;
        let slot = table.slots.get(at).ok_or_else(ApiFault::shutting_down)?;
        match &slot.state {
            SlotState::Ready(running) => {
                let model = running.model(adapter.as_deref()).map(Arc::clone);
                model.ok_or_else(|| ApiFault::of_panic("an adapter is not loaded"))
            }
            state => {
                let (id, state) = (&slot.id, state.name());
                let reason = format!(
                    "the model {id} is not in memory ({state}), and this route opens none; a request that it answers does"
                );
                Err(ApiFault::new(400, reason).with_param("model").with_code("model_not_loaded"))
            }
        }
    }

    /// Whether the files of a running model have changed.
    fn is_outdated(&self, slot: Option<&ModelSlot>) -> bool {
        match (slot, &self.library) {
            (
                Some(ModelSlot { id, is_in_library: true, state: SlotState::Ready(running), .. }),
                Some(library),
            ) => library.stamp(id) != running.stamp,
            _ => false,
        }
    }

    /// The model of this name, when it answers.
    pub(crate) async fn ready(&self, name: &str) -> Result<Arc<EngineModel>, ApiFault> {
        self.ready_for(name, RequestClass::Client).await
    }

    /// [`Self::ready`] for a request of this class. Only clients take places of those that wait.
    pub(crate) async fn ready_for(
        &self,
        name: &str,
        class: RequestClass,
    ) -> Result<Arc<EngineModel>, ApiFault> {
        let mut changes = self.changes.subscribe();
        let mut place = None;
        loop {
            if let SlotAnswer::Ready(model) = self.get(name)? {
                return Ok(model);
            }
            if place.is_none() && class == RequestClass::Client {
                place = Some(self.wait()?);
            }
            changes.changed().await.map_err(|_| ApiFault::shutting_down())?;
        }
    }

    /// A place among the requests that wait for models.
    fn wait(&self) -> Result<AdmittedRequests, ApiFault> {
        let most = self.limits.queue.max(1);
        AdmittedRequests::within(most, &self.waiting, 1).map_err(|waiting| {
            let reason = format!(
                "{waiting} requests wait for models that are being opened; at most {most} may (--queue)"
            );
            ApiFault::new(429, reason).with_code("queue_full").with_retry_after(Duration::from_secs(1))
        })
    }

    /// The id of the only model; without one, a name is needed.
    pub(crate) fn only(&self) -> Result<String, ApiFault> {
        match self.lock().slots.as_slice() {
            [only] => Ok(only.id.clone()),
            [] => Err(ApiFault::new(404, "model: there are no models")
                .with_param("model")
                .with_code("model_not_found")),
            _ => {
                Err(ApiFault::new(400, "model: there are several models; name one of them")
                    .with_param("model"))
            }
        }
    }

    /// The architectures of the library.
    pub(crate) fn environment(&self) -> Option<Environment> {
        self.library.as_ref()?.environment()
    }

    /// What clients see of all models.
    pub(crate) fn views(&self) -> Vec<SlotView> {
        self.lock().slots.iter().map(view).collect()
    }

    /// What clients see of the model of this name, and the adapter that the name asks for. Nothing is opened.
    pub(crate) fn view(&self, name: &str) -> Result<(SlotView, Option<String>), ApiFault> {
        let table = self.lock();
        let (at, adapter) = table.find(name)?;
        let slot = table.slots.get(at).ok_or_else(ApiFault::shutting_down)?;
        Ok((view(slot), adapter))
    }

    /// What `read` finds in the models that are in memory. They are not held, so that none seems to have a request.
    pub(crate) fn of_running<T>(&self, read: impl Fn(&EngineModel) -> T) -> Vec<T> {
        let table = self.lock();
        let running = table.slots.iter().filter_map(|slot| match &slot.state {
            SlotState::Ready(running) => Some(read(&running.base)),
            _ => None,
        });
        running.collect()
    }

    /// Reads the library again; returns what changed.
    pub(crate) async fn reload(&self) -> Result<ModelChange, ApiFault> {
        let (reply, change) = oneshot::channel();
        self.command(KeeperCommand::Reload(reply))?;
        change.await.map_err(|_| ApiFault::shutting_down())?
    }

    /// Cancels all requests, and refuses those that wait.
    pub(crate) fn close(&self) {
        self.is_closing.store(true, Ordering::Relaxed);
        let table = self.lock();
        for slot in &table.slots {
            match &slot.state {
                SlotState::Ready(running) => running.cancel(),
                SlotState::Loading(meter) => meter.cancel(),
                SlotState::Absent | SlotState::Draining | SlotState::Failed(..) => {}
            }
        }
        table.retired.iter().for_each(RunningModel::cancel);
        drop(table);
        self.changed();
    }
}

/// What a reload changed: ids of models and specs, and plugins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ModelChange {
    pub(crate) added: Vec<String>,
    pub(crate) removed: Vec<String>,
    pub(crate) changed: Vec<String>,
    pub(crate) specs: Vec<String>,
    pub(crate) plugins: Vec<String>,
}

fn view(slot: &ModelSlot) -> SlotView {
    let mut view = SlotView {
        id: slot.id.clone(),
        aliases: slot.aliases.clone(),
        adapters: slot.adapters.clone(),
        state: slot.state.name(),
        percent: None,
        reason: None,
        card: None,
        context: None,
        abilities: None,
        open: 0,
        bytes: None,
        metrics: Arc::clone(&slot.metrics),
    };
    match &slot.state {
        SlotState::Loading(meter) => view.percent = Some(meter.percent()),
        SlotState::Failed(fault, _) => view.reason = Some(fault.message.clone()),
        SlotState::Ready(RunningModel { base, bytes, .. }) => {
            (view.context, view.abilities) = (Some(base.context()), Some(base.abilities()));
            (view.open, view.bytes, view.card) = (base.worker.open(), Some(*bytes), base.card.clone());
        }
        SlotState::Absent | SlotState::Draining => {}
    }
    view
}

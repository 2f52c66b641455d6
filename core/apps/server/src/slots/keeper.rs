//! [`SlotKeeper`]: the thread that opens and drops models.

use super::table::{ModelSlot, SlotState, SlotTable};
use super::{ModelChange, ModelSlots, SlotLimits};
use crate::error::ServerError;
use crate::event_log::EventLog;
use crate::fault::ApiFault;
use crate::library::{LibraryModel, LoadMeter, ModelLibrary};
use crate::options::ServerOptions;
use crate::running_model::RunningModel;
use crate::served_model::ServedModel;
use crate::worker::said;
use menagerie::engine::Metrics;
use menagerie::open::byte_text;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::{oneshot, watch};

/// How often unused models are looked for.
const TICK: Duration = Duration::from_millis(200);
/// A model that could not be opened is not tried again before this time.
const RETRY: Duration = Duration::from_secs(10);
/// The same, if it did not fit beside models that have requests.
const RETRY_ROOM: Duration = Duration::from_millis(500);

/// What the keeper is asked for.
pub(super) enum KeeperCommand {
    /// Open the model with this id.
    Load(String),
    /// Read the library again.
    Reload(oneshot::Sender<Result<ModelChange, ApiFault>>),
    /// End.
    End,
}

/// The thread that opens and drops models.
pub(crate) struct SlotKeeper {
    slots: Arc<ModelSlots>,
    thread: JoinHandle<()>,
}

impl SlotKeeper {
    /// Starts the thread of each given model, and the keeper. The library has the given models too, if it can open them
    /// again.
    pub(crate) fn start(
        models: Vec<ServedModel>,
        library: Option<Arc<dyn ModelLibrary>>,
        options: &ServerOptions,
    ) -> Result<Self, ServerError> {
        let ServerOptions { memory, idle, queue, .. } = *options;
        let limits = SlotLimits { memory, idle, queue };
        let offered = library.as_ref().map_or(Ok(Vec::new()), |library| library.models());
        let offered = offered.map_err(|error| ServerError::Model(error.to_string()))?;
        let (commands, received) = channel();
        let slots = ModelSlots {
            table: Mutex::new(table(models, offered, limits, &options.pins)?),
            library,
            limits,
            log: EventLog::of(options),
            commands: Mutex::new(commands),
            changes: watch::channel(0).0,
            waiting: Arc::default(),
            is_closing: false.into(),
        };
        let slots = Arc::new(slots);
        let keeper = Arc::clone(&slots);
        let thread = std::thread::Builder::new().name("menagerie-models".to_owned());
        let thread = thread.spawn(move || keeper.keep(&received)).map_err(ServerError::Runtime)?;
        Ok(Self { slots, thread })
    }

    pub(crate) fn slots(&self) -> &Arc<ModelSlots> {
        &self.slots
    }

    /// Ends the keeper and all models.
    pub(crate) fn end(self) {
        let Self { slots, thread } = self;
        // A keeper that has panicked is gone.
        let _ = slots.command(KeeperCommand::End);
        let _ = thread.join();
        let SlotTable { slots, retired } = std::mem::take(&mut *slots.lock());
        let running = slots.into_iter().filter_map(|mut slot| slot.take_running(SlotState::Absent));
        running.chain(retired).for_each(RunningModel::end);
    }
}

/// The table of the models that are given and of those that the library offers.
fn table(
    models: Vec<ServedModel>,
    offered: Vec<LibraryModel>,
    limits: SlotLimits,
    pins: &[String],
) -> Result<SlotTable, ServerError> {
    let mut table = SlotTable::default();
    let (mut offered, mut bytes) = (offered, 0_u64);
    for model in models {
        let known = offered.iter().position(|one| one.id == model.names.first().map_or("", String::as_str));
        let in_library = known.map(|at| offered.remove(at));
        bytes = bytes.saturating_add(model.bytes);
        table.slots.push(started(model, in_library, limits.queue)?);
    }
    table.slots.extend(offered.into_iter().map(ModelSlot::absent));
    check_names(&table.slots)?;
    for pin in pins {
        let Ok((at, None)) = table.find(pin) else { return Err(ServerError::Pin { name: pin.clone() }) };
        table.slots.get_mut(at).into_iter().for_each(|slot| slot.is_pinned = true);
    }
    match limits.memory {
        Some(budget) if bytes > budget => {
            Err(ServerError::Memory { needed: byte_text(bytes), budget: byte_text(budget) })
        }
        _ => Ok(table),
    }
}

/// The slot of a model that runs.
fn started(
    model: ServedModel,
    in_library: Option<LibraryModel>,
    queue: usize,
) -> Result<ModelSlot, ServerError> {
    let aliases = model.names.iter().skip(1).cloned().collect();
    let adapters = model.adapters.iter().map(|(name, _)| name.clone()).collect();
    let id = model.names.first().cloned().unwrap_or_default();
    let is_in_library = in_library.is_some();
    let metrics = Arc::default();
    let running = model.start(queue, &metrics).map_err(ServerError::Model)?;
    let state = SlotState::Ready(running);
    Ok(ModelSlot { id, aliases, adapters, is_in_library, is_pinned: false, metrics, state })
}

/// Refuses two models with the same name.
fn check_names(slots: &[ModelSlot]) -> Result<(), ServerError> {
    let mut known = BTreeSet::new();
    match slots.iter().flat_map(ModelSlot::names).find(|name| !known.insert(*name)) {
        Some(name) => Err(ServerError::SameName { name: name.clone() }),
        None => Ok(()),
    }
}

impl ModelSlots {
    /// Opens and drops models until the end.
    fn keep(&self, commands: &Receiver<KeeperCommand>) {
        loop {
            match commands.recv_timeout(TICK) {
                Ok(KeeperCommand::Load(id)) => self.load(&id),
                Ok(KeeperCommand::Reload(reply)) => {
                    // The client may be gone.
                    let _ = reply.send(catch_unwind(AssertUnwindSafe(|| self.reload_now())).unwrap_or_else(
                        |panic| {
                            Err(ApiFault::of_panic(&format!(
                                "reading the models again panicked: {}",
                                said(&*panic)
                            )))
                        },
                    ));
                }
                Ok(KeeperCommand::End) | Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {}
            }
            self.sweep();
        }
    }

    /// Sets the state of a model.
    pub(super) fn set(&self, id: &str, state: SlotState) {
        if let Some(slot) = self.lock().slot(id) {
            slot.state = state;
        }
        self.changed();
    }

    /// Ends models that nobody uses.
    pub(super) fn sweep(&self) {
        let unused = self.lock().take_unused(self.limits.idle);
        for (id, running) in unused {
            if let Some(reason) = running.base.worker.failure() {
                let reason = format!(
                    "the model {} is dropped, and the next request opens it again: {reason}",
                    running.base.id
                );
                self.log.error("model_failed", &reason);
            }
            running.end();
            if let Some(id) = id {
                self.set(&id, SlotState::Absent);
            }
        }
    }

    fn load(&self, id: &str) {
        let found = match self.lock().slot(id) {
            Some(ModelSlot { state: SlotState::Loading(meter), metrics, .. }) => {
                Some((meter.clone(), Arc::clone(metrics)))
            }
            // A reload has removed it meanwhile.
            _ => None,
        };
        let Some((meter, metrics)) = found else { return };
        let opened = catch_unwind(AssertUnwindSafe(|| self.open(id, &meter, &metrics)));
        let opened = opened.unwrap_or_else(|panic| {
            Err(ApiFault::of_panic(&format!("opening the model {id} panicked: {}", said(&*panic))))
        });
        let state = match opened {
            Ok(running) => SlotState::Ready(running),
            Err(fault) => {
                let time = if fault.is_for_now() { RETRY_ROOM } else { RETRY };
                SlotState::Failed(fault, Instant::now() + time)
            }
        };
        self.set(id, state);
    }

    fn open(&self, id: &str, meter: &LoadMeter, metrics: &Arc<Metrics>) -> Result<RunningModel, ApiFault> {
        let Some(library) = &self.library else { return Err(ApiFault::of_panic("there is no library")) };
        self.make_room(id, library.bytes(id))?;
        let failed = |reason: String| {
            let fault = ApiFault::new(500, format!("the model {id} cannot be opened: {reason}"));
            fault.with_param("model").with_code("model_load_failed")
        };
        let served = library.open(id, meter).map_err(|error| failed(error.to_string()))?;
        // Now its memory is known.
        self.make_room(id, served.bytes)?;
        served.start(self.limits.queue, metrics).map_err(failed)
    }
}

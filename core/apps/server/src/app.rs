//! [`ServerApp`]: what all requests share.

use crate::fault::ApiFault;
use crate::http_counters::HttpCounters;
use crate::model::EngineModel;
use crate::options::ServerOptions;
use crate::pulls::PullTable;
use crate::slots::ModelSlots;
use crate::stored::BatchFolder;
use crate::tls::ServerTls;
use crate::utc_time::seconds;
use serde_json::{Map, Value};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// Models, options and counters.
pub(crate) struct ServerApp {
    pub(crate) models: Arc<ModelSlots>,
    pub(crate) options: ServerOptions,
    pub(crate) tls: Option<ServerTls>,
    /// Held while files are read again.
    pub(crate) reloading: tokio::sync::Mutex<()>,
    /// Whether only this machine can reach it.
    pub(crate) is_local: bool,
    /// Seconds since 1970 of its start.
    pub(crate) created: u64,
    /// Whether it ends: new requests are refused.
    pub(crate) is_draining: AtomicBool,
    /// Requests whose answers have not been sent.
    pub(crate) open: AtomicUsize,
    pub(crate) counters: HttpCounters,
    pub(crate) pulls: PullTable,
    /// The folder of files and batches, if there is one.
    batches: Option<Arc<BatchFolder>>,
    ids: RandomState,
    next_id: AtomicU64,
}

impl ServerApp {
    pub(crate) fn new(
        models: Arc<ModelSlots>,
        options: ServerOptions,
        (tls, batches): (Option<ServerTls>, Option<BatchFolder>),
        is_local: bool,
    ) -> Self {
        Self {
            models,
            options,
            tls,
            reloading: tokio::sync::Mutex::new(()),
            is_local,
            created: seconds(),
            is_draining: AtomicBool::new(false),
            open: AtomicUsize::new(0),
            counters: HttpCounters::default(),
            pulls: PullTable::default(),
            batches: batches.map(Arc::new),
            ids: RandomState::new(),
            next_id: AtomicU64::new(0),
        }
    }

    /// A new id: unique in this process, and impossible to guess.
    pub(crate) fn id(&self, prefix: &str) -> String {
        let number = self.next_id.fetch_add(1, Ordering::Relaxed);
        format!("{prefix}{:016x}{number:08x}", self.ids.hash_one(number))
    }

    /// The folder of files and batches.
    pub(crate) fn batch_folder(&self) -> Result<&Arc<BatchFolder>, ApiFault> {
        self.batches.as_ref().ok_or_else(|| {
            let reason = "files and batches need a folder: start the server with --batch-dir DIR";
            ApiFault::new(404, reason).with_code("batches_disabled")
        })
    }

    /// What files and batches of a client are known by.
    pub(crate) fn owner(&self, client: u64) -> String {
        self.options.keys.salt(client).map_or_else(String::new, |salt| salt.to_string())
    }

    /// The number of the client with this owner id; `None` if its key was removed.
    pub(crate) fn client(&self, owner: &str) -> Option<u64> {
        match self.options.keys.is_empty() {
            true => owner.is_empty().then_some(0),
            false => self.options.keys.with_salt(owner),
        }
    }

    /// The name of the model in a body; without it, that of the only model.
    pub(crate) fn name_of(&self, fields: &mut Map<String, Value>) -> Result<String, ApiFault> {
        match fields.remove("model").unwrap_or_default() {
            Value::String(name) => Ok(name),
            Value::Null => self.models.only(),
            other => Err(ApiFault::new(400, format!("model: {other} is not a string")).with_param("model")),
        }
    }

    /// The model that a body names, when it is in memory; without a name the only one.
    pub(crate) async fn model_of(
        &self,
        fields: &mut Map<String, Value>,
    ) -> Result<Arc<EngineModel>, ApiFault> {
        let name = self.name_of(fields)?;
        self.models.ready(&name).await
    }

    /// Why it cannot answer, if it cannot.
    pub(crate) fn failure(&self) -> Option<String> {
        if self.is_draining.load(Ordering::Relaxed) {
            return Some("the server is shutting down".to_owned());
        }
        let failed = |model: &EngineModel| Some(format!("{}: {}", model.id, model.worker.failure()?));
        self.models.of_running(failed).into_iter().flatten().next()
    }
}

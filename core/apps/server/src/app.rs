//! [`ServerApp`]: what all requests share.

use crate::fault::ApiFault;
use crate::http_counters::HttpCounters;
use crate::model::EngineModel;
use crate::options::ServerOptions;
use serde_json::{Map, Value};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Models, options and counters.
pub(crate) struct ServerApp {
    pub(crate) models: Vec<Arc<EngineModel>>,
    pub(crate) options: ServerOptions,
    /// Seconds since 1970 of its start.
    pub(crate) created: u64,
    /// Whether it ends: new requests are refused.
    pub(crate) is_draining: AtomicBool,
    /// Requests whose answers have not been sent.
    pub(crate) open: AtomicUsize,
    pub(crate) counters: HttpCounters,
    ids: RandomState,
    next_id: AtomicU64,
}

impl ServerApp {
    pub(crate) fn new(models: Vec<EngineModel>, options: ServerOptions) -> Self {
        Self {
            models: models.into_iter().map(Arc::new).collect(),
            options,
            created: seconds(),
            is_draining: AtomicBool::new(false),
            open: AtomicUsize::new(0),
            counters: HttpCounters::default(),
            ids: RandomState::new(),
            next_id: AtomicU64::new(0),
        }
    }

    /// A new id: unique in this process, and impossible to guess.
    pub(crate) fn id(&self, prefix: &str) -> String {
        let number = self.next_id.fetch_add(1, Ordering::Relaxed);
        format!("{prefix}{:016x}{number:08x}", self.ids.hash_one(number))
    }

    /// The model of this name.
    pub(crate) fn named(&self, name: &str) -> Result<&Arc<EngineModel>, ApiFault> {
        let is_named = |model: &&Arc<EngineModel>| model.names.iter().any(|known| known == name);
        self.models.iter().find(is_named).ok_or_else(|| {
            let known: Vec<&str> = self.models.iter().map(|model| model.id.as_str()).collect();
            let reason = format!("there is no model {name:?}; there are: {}", known.join(", "));
            ApiFault::new(404, reason).with_param("model").with_code("model_not_found")
        })
    }

    /// The model that a body names; without a name the only one.
    pub(crate) fn model_of(&self, fields: &mut Map<String, Value>) -> Result<Arc<EngineModel>, ApiFault> {
        match (fields.remove("model").unwrap_or_default(), self.models.as_slice()) {
            (Value::String(name), _) => self.named(&name).cloned(),
            (Value::Null, [only]) => Ok(Arc::clone(only)),
            (Value::Null, _) => {
                let reason = "model: there are several models; name one of them";
                Err(ApiFault::new(400, reason).with_param("model"))
            }
            (other, _) => {
                Err(ApiFault::new(400, format!("model: {other} is not a string")).with_param("model"))
            }
        }
    }

    /// Why it cannot answer, if it cannot.
    pub(crate) fn failure(&self) -> Option<String> {
        if self.is_draining.load(Ordering::Relaxed) {
            return Some("the server is shutting down".to_owned());
        }
        let failed = |model: &Arc<EngineModel>| Some(format!("{}: {}", model.id, model.worker.failure()?));
        self.models.iter().find_map(failed)
    }
}

/// Seconds since 1970.
pub(crate) fn seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

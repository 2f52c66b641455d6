//! [`AdapterLibrary`]: where a stage finds the adapters that frames name by number.

use menagerie_model::Adapter;
use std::sync::{Arc, Mutex, PoisonError};

/// The adapters of a stage, fitted to its own sites.
pub trait AdapterLibrary: Send + Sync {
    /// The adapter that the chain gave this number; `name` is what it is called.
    fn find(&self, number: u32, name: &str) -> Option<Arc<Adapter>>;
}

/// Adapters of stages that share the sites of one model: each by its number.
#[derive(Debug, Default)]
pub struct SharedAdapters(Mutex<Vec<Arc<Adapter>>>);

impl SharedAdapters {
    /// The number of an adapter.
    pub(crate) fn number(&self, adapter: &Arc<Adapter>) -> u32 {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(number) = known.iter().position(|one| Arc::ptr_eq(one, adapter)) {
            return number as u32;
        }
        known.push(Arc::clone(adapter));
        known.len() as u32 - 1
    }
}

impl AdapterLibrary for SharedAdapters {
    fn find(&self, number: u32, _name: &str) -> Option<Arc<Adapter>> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(number as usize).cloned()
    }
}

/// Adapters of a stage in a process of its own: those that its model was opened with, by name.
#[derive(Debug, Default)]
pub struct NamedAdapters(Vec<Arc<Adapter>>);

impl NamedAdapters {
    /// These adapters.
    pub fn new(adapters: Vec<Arc<Adapter>>) -> Self {
        Self(adapters)
    }
}

impl AdapterLibrary for NamedAdapters {
    fn find(&self, _number: u32, name: &str) -> Option<Arc<Adapter>> {
        self.0.iter().find(|adapter| adapter.name() == name).cloned()
    }
}

//! [`ModelLibrary`]: models that a server opens when a request names them.

use crate::served_model::ServedModel;
use menagerie::registry::Environment;
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Why a library cannot do something. The text names the file.
pub type LibraryError = Box<dyn Error + Send + Sync>;

/// Models that a server can open. One thread of the server calls it; only [`Self::stamp`] and [`Self::environment`] are called by others too.
pub trait ModelLibrary: Send + Sync {
    /// All models that there are now.
    ///
    /// # Errors
    /// They cannot be listed.
    fn models(&self) -> Result<Vec<LibraryModel>, LibraryError>;

    /// Identifies the files of a model: if it changes, they are another model. `None` if they are not there.
    fn stamp(&self, id: &str) -> Option<u64>;

    /// The bytes of memory that a model needs at least, before it is opened.
    fn bytes(&self, id: &str) -> u64;

    /// Opens a model. It reports its progress to `meter`.
    ///
    /// # Errors
    /// The model cannot be opened.
    fn open(&self, id: &str, meter: &LoadMeter) -> Result<ServedModel, LibraryError>;

    /// The architectures with which models are opened, to show them; `None` if they are not known.
    fn environment(&self) -> Option<Environment> {
        None
    }

    /// Reads again what does not belong to a single model.
    ///
    /// # Errors
    /// Something cannot be read; then nothing has changed.
    fn reload(&self) -> Result<LibraryChange, LibraryError>;
}

/// A model of a library.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LibraryModel {
    /// Its name.
    pub id: String,
    /// Its other names.
    pub aliases: Vec<String>,
    /// The names of its adapters; `id:adapter` is the model with one of them.
    pub adapters: Vec<String>,
}

impl LibraryModel {
    /// A model with this name.
    pub fn new(id: impl Into<String>) -> Self {
        Self { id: id.into(), ..Self::default() }
    }

    /// Sets its other names.
    #[must_use]
    pub fn with_aliases(self, aliases: Vec<String>) -> Self {
        Self { aliases, ..self }
    }

    /// Sets the names of its adapters.
    #[must_use]
    pub fn with_adapters(self, adapters: Vec<String>) -> Self {
        Self { adapters, ..self }
    }
}

/// What [`ModelLibrary::reload`] found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LibraryChange {
    /// Ids of specs that are new, changed or gone.
    pub specs: Vec<String>,
    /// Plugins that are new, changed or gone.
    pub plugins: Vec<String>,
    /// Ids of open models that depend on one of these, and are opened again.
    pub models: Vec<String>,
}

impl LibraryChange {
    /// A change of these specs and plugins.
    pub fn new(specs: Vec<String>, plugins: Vec<String>) -> Self {
        Self { specs, plugins, models: Vec::new() }
    }

    /// Sets the models that are opened again.
    #[must_use]
    pub fn with_models(self, models: Vec<String>) -> Self {
        Self { models, ..self }
    }
}

/// How much of a model is loaded, and whether it is still needed.
#[derive(Clone, Debug, Default)]
pub struct LoadMeter {
    percent: Arc<AtomicU32>,
    is_cancelled: Arc<AtomicBool>,
}

impl LoadMeter {
    /// Reports that `done` of `all` is done.
    pub fn report(&self, done: u64, all: u64) {
        let percent = u128::from(done) * 100 / u128::from(all.max(1));
        self.percent.store(u32::try_from(percent.min(100)).unwrap_or(100), Ordering::Relaxed);
    }

    /// Percent that are done.
    pub(crate) fn percent(&self) -> u32 {
        self.percent.load(Ordering::Relaxed)
    }

    /// Whether the server is shutting down, so that loading can stop.
    pub fn is_cancelled(&self) -> bool {
        self.is_cancelled.load(Ordering::Relaxed)
    }

    /// Tells the library to stop loading.
    pub(crate) fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::Relaxed);
    }
}

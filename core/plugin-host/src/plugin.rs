//! [`LoadedPlugin`]: a plugin whose library is loaded, and whether it is still allowed to run.

use crate::manifest::PluginManifest;
use menagerie_plugin::abi::{ERROR, Init, OK, PANIC, Status};
use menagerie_registry::{Entries, Entry};
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

/// PanicStrategy and broken promises after which no more of a plugin is run.
const STRIKES: u32 = 3;

/// Where a plugin is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PluginLocation {
    /// A file that was opened.
    File(PathBuf),
    /// Linked into this program.
    Static,
}

impl fmt::Display for PluginLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Static => f.write_str("linked in"),
        }
    }
}

/// A component of a plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginComponent {
    /// Its family, as listings name it: `mixer`, `feed-forward`, `norm`, `activation`, `rope`, `sampler`, `tokenizer`,
    /// `layer-hook`.
    pub family: &'static str,
    /// Its name, `author/name:component`.
    pub name: &'static str,
    /// Its description.
    pub doc: &'static str,
}

/// A plugin whose library is loaded; it lasts as long as the process.
#[derive(Debug)]
pub struct LoadedPlugin {
    /// The content of its manifest.
    pub inspected: PluginManifest,
    /// Where it is.
    pub location: PluginLocation,
    /// SHA-256 of its file, in hexadecimal; empty where it is linked in.
    pub sha256: String,
    /// Its components.
    pub components: Vec<PluginComponent>,
    /// Ids of the architectures it brings.
    pub architectures: Vec<String>,
    /// Names of the tables it brings.
    pub tables: Vec<String>,
    pub(crate) record: &'static PluginRecord,
    /// The function that registered its components.
    pub(crate) init: Init,
    /// What it registers in an environment.
    pub(crate) entries: Entries,
}

/// A plugin in an environment, which has at most one of an id.
impl Entry for &'static LoadedPlugin {
    const FAMILY: &'static str = "plugin";

    fn name(&self) -> &str {
        &self.inspected.id
    }

    fn registered_by(&self) -> &str {
        self.shown()
    }
}

impl LoadedPlugin {
    /// For listings and errors: `plugin author/name 0.1.0 (/path/of/it.so)`.
    pub fn shown(&self) -> &'static str {
        self.record.shown
    }

    /// Whether so many of its calls panicked or broke the ABI that no more of it is run in this process.
    pub fn is_quarantined(&self) -> bool {
        self.record.is_quarantined()
    }

    /// After how many such calls that is.
    pub fn missteps_allowed(&self) -> u32 {
        STRIKES
    }

    /// How many of its calls have panicked or broken the ABI, those that make instances among them.
    pub fn missteps(&self) -> u32 {
        self.record.missteps.load(Ordering::Relaxed)
    }

    /// Lets it run again after a quarantine: for trying each of its components out. Instances that broke the rules stay poisoned.
    pub fn begin_anew(&self) {
        self.record.strikes.store(0, Ordering::Relaxed);
    }
}

/// How a plugin has behaved so far.
#[derive(Debug)]
pub(crate) struct PluginRecord {
    pub(crate) id: String,
    pub(crate) shown: &'static str,
    /// What tells its code from another plugin's: the sum of its file, or the version of one that is linked in.
    pub(crate) code: String,
    strikes: AtomicU32,
    /// All calls that broke the rules.
    missteps: AtomicU32,
}

/// How a call into a plugin ended, other than well.
pub(crate) enum CallFailure {
    /// It said that it failed.
    Failed(String),
    /// It broke the rules: the instance is not called again.
    Broke(String),
}

impl PluginRecord {
    /// That of a plugin which has done nothing yet; lasts as long as the process.
    pub(crate) fn new(
        inspected: &PluginManifest,
        location: &PluginLocation,
        sha256: &str,
    ) -> &'static PluginRecord {
        let shown = format!("plugin {} {} ({location})", inspected.id, inspected.version);
        let shown = crate::texts::leaked(&shown);
        let code = if sha256.is_empty() { &inspected.version } else { sha256 }.to_owned();
        let (strikes, missteps) = (AtomicU32::new(0), AtomicU32::new(0));
        Box::leak(Box::new(PluginRecord { id: inspected.id.clone(), shown, code, strikes, missteps }))
    }

    pub(crate) fn is_quarantined(&self) -> bool {
        self.strikes.load(Ordering::Relaxed) >= STRIKES
    }

    /// Refuses to run anything more of a plugin that has misbehaved too often.
    ///
    /// # Errors
    /// Why.
    pub(crate) fn check(&self) -> Result<(), String> {
        if !self.is_quarantined() {
            return Ok(());
        }
        Err(format!(
            "{} is not run anymore: {STRIKES} of its calls panicked or violated the ABI; restart without it, or with a corrected version",
            self.shown
        ))
    }

    /// What a status of the plugin means; `forward` names the function.
    pub(crate) fn judge(&self, status: Status, function: &str) -> Result<(), CallFailure> {
        if ![OK, ERROR].contains(&status) {
            self.missteps.fetch_add(1, Ordering::Relaxed);
        }
        match status {
            OK => Ok(()),
            ERROR => Err(CallFailure::Failed(crate::texts::said())),
            PANIC => Err(CallFailure::Broke(format!("{function} panicked: {}", crate::texts::said()))),
            other => Err(CallFailure::Broke(format!(
                "{function} returned status {other}, which the plugin ABI does not have"
            ))),
        }
    }

    /// Counts an instance that broke the rules; one that could not be made is none.
    pub(crate) fn strike(&self) {
        let before = self.strikes.fetch_add(1, Ordering::Relaxed);
        if before + 1 == STRIKES {
            tracing::error!(
                "{} is not run anymore: {STRIKES} of its calls panicked or violated the ABI",
                self.shown
            );
        }
    }
}

/// The libraries that this process has loaded; none is ever unloaded.
static LOADED: Mutex<Vec<&'static LoadedPlugin>> = Mutex::new(Vec::new());

/// The plugins whose libraries this process has loaded, in that order. Which of them are used is a matter of each
/// [`Environment`](menagerie_registry::Environment).
pub fn loaded() -> Vec<&'static LoadedPlugin> {
    LOADED.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Adds a plugin to [`loaded`].
pub(crate) fn keep(plugin: LoadedPlugin) -> &'static LoadedPlugin {
    let plugin: &'static LoadedPlugin = Box::leak(Box::new(plugin));
    LOADED.lock().unwrap_or_else(PoisonError::into_inner).push(plugin);
    plugin
}

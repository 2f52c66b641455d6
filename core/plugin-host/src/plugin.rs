//! [`LoadedPlugin`]: a plugin whose library is loaded, and whether it is still allowed to run.

use crate::manifest::PluginManifest;
use menagerie_plugin::abi::{ERROR, Init, OK, PANIC, Status};
use menagerie_registry::{Entries, Entry};
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

/// Number of panics and violations of the ABI after which a plugin is not run anymore.
const STRIKES: u32 = 3;

/// The location of a plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PluginLocation {
    /// A file.
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
    /// Its family, as in listings: `mixer`, `feed-forward`, `norm`, `activation`, `rope`, `sampler`, `tokenizer`,
    /// `layer-hook`.
    pub family: &'static str,
    /// Its name, `author/name:component`.
    pub name: &'static str,
    /// Its description.
    pub doc: &'static str,
}

/// A plugin whose library is loaded; it lives as long as the process.
#[derive(Debug)]
pub struct LoadedPlugin {
    /// The content of its manifest.
    pub inspected: PluginManifest,
    /// Its location.
    pub location: PluginLocation,
    /// SHA-256 of its file, in hexadecimal; empty if it is linked in.
    pub sha256: String,
    /// Its components.
    pub components: Vec<PluginComponent>,
    /// Ids of its architectures.
    pub architectures: Vec<String>,
    /// Names of its tables.
    pub tables: Vec<String>,
    pub(crate) record: &'static PluginRecord,
    /// The function that registered its components.
    pub(crate) init: Init,
    /// The entries that it registers in an environment.
    pub(crate) entries: Entries,
}

/// A plugin in an environment, which has at most one plugin with an id.
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

    /// Whether it is quarantined: too many of its calls panicked or violated the ABI, so this process does not run it
    /// anymore.
    pub fn is_quarantined(&self) -> bool {
        self.record.is_quarantined()
    }

    /// The number of such calls that leads to a quarantine.
    pub fn missteps_allowed(&self) -> u32 {
        STRIKES
    }

    /// The number of its calls that panicked or violated the ABI, including calls of `create`.
    pub fn missteps(&self) -> u32 {
        self.record.missteps.load(Ordering::Relaxed)
    }

    /// Ends a quarantine, so that each component can be tried. Instances that violated the ABI stay poisoned.
    pub fn begin_anew(&self) {
        self.record.strikes.store(0, Ordering::Relaxed);
    }
}

/// The identity of a plugin, and the failures of its calls so far.
#[derive(Debug)]
pub(crate) struct PluginRecord {
    pub(crate) id: String,
    pub(crate) shown: &'static str,
    /// The identity of its code: the SHA-256 of its file, or the version of a plugin that is linked in.
    pub(crate) code: String,
    strikes: AtomicU32,
    /// All calls that violated the ABI.
    missteps: AtomicU32,
}

/// The failure of a call into a plugin.
pub(crate) enum CallFailure {
    /// The plugin reported an error.
    Failed(String),
    /// The plugin panicked or violated the ABI: the instance is not called again.
    Broke(String),
}

impl PluginRecord {
    /// The record of a new plugin; it lives as long as the process.
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

    /// Checks that the plugin is not quarantined.
    ///
    /// # Errors
    /// The plugin is quarantined.
    pub(crate) fn check(&self) -> Result<(), String> {
        if !self.is_quarantined() {
            return Ok(());
        }
        Err(format!(
            "{} is not run anymore: {STRIKES} of its calls panicked or violated the ABI; restart without it, or with a corrected version",
            self.shown
        ))
    }

    /// The meaning of a status; `function` is for errors.
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

    /// Counts a violation of the ABI.
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

/// The libraries that this process has loaded; they are never unloaded.
static LOADED: Mutex<Vec<&'static LoadedPlugin>> = Mutex::new(Vec::new());

/// The plugins whose libraries this process has loaded, in order. Each
/// [`Environment`](menagerie_registry::Environment) has some of them.
pub fn loaded() -> Vec<&'static LoadedPlugin> {
    LOADED.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Adds a plugin to [`loaded`].
pub(crate) fn keep(plugin: LoadedPlugin) -> &'static LoadedPlugin {
    let plugin: &'static LoadedPlugin = Box::leak(Box::new(plugin));
    LOADED.lock().unwrap_or_else(PoisonError::into_inner).push(plugin);
    plugin
}

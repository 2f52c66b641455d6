//! Arguments that select plugins, and the functions that load them.

use crate::config_file::ConfigFile;
use crate::failure::Failure;
use crate::screen::report;
use clap::Args;
use menagerie::plugin_host::{self, LoadedPlugin, Lock, PanicStrategy, PluginError, PluginLoadOptions};
use menagerie::registry::Environment;
use std::path::{Path, PathBuf};

/// Environment variable with more plugin folders, separated as in `PATH`.
pub(crate) const VARIABLE: &str = "MENAGERIE_PLUGIN_DIR";

/// Name of the lock in the configuration folder.
const LOCK: &str = "plugins.lock";

/// Plugins to load.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct PluginArguments {
    /// Load the plugins in this folder, or one plugin file (repeatable; also MENAGERIE_PLUGIN_DIR). Plugins are native code
    /// with your permissions; none is loaded without this option
    #[arg(long, hide_short_help = true, global = true, value_name = "DIR", help_heading = "Plugins")]
    plugin_dir: Vec<PathBuf>,
    /// Load only plugins whose bytes are locked by `plugin trust`; stop at any other
    #[arg(long, hide_short_help = true, global = true, help_heading = "Plugins")]
    plugins_locked: bool,
}

impl PluginArguments {
    /// The plugin files to load, in order; the files of a folder are sorted by name.
    ///
    /// # Errors
    /// A folder does not exist or cannot be read.
    pub(crate) fn files(&self) -> Result<Vec<PathBuf>, Failure> {
        let mut places = self.plugin_dir.clone();
        if let Some(list) = std::env::var_os(VARIABLE) {
            places.extend(std::env::split_paths(&list).filter(|path| !path.as_os_str().is_empty()));
        }
        let mut files = Vec::new();
        for place in places {
            let found = if place.is_dir() { plugin_host::files_of(&place)? } else { vec![place] };
            files.extend(found.into_iter().filter(|file| !files.contains(file)).collect::<Vec<_>>());
        }
        Ok(files)
    }

    /// The environment of this program with the plugins that are linked in and every requested plugin file, and the errors
    /// of the plugins that are refused. A refused plugin has no effect.
    ///
    /// # Errors
    /// A folder cannot be read; with --plugins-locked, the first plugin that is refused.
    pub(crate) fn install(&self) -> Result<(Environment, Vec<PluginError>), Failure> {
        let (mut environment, mut refused) = plugin_host::with_linked_plugins(&Environment::linked()?);
        let files = self.files()?;
        let lock = if self.plugins_locked { Some(lock()?.0) } else { None };
        for file in files {
            let options = PluginLoadOptions::default().with_locked(lock.as_ref());
            match plugin_host::load(&environment, &file, options) {
                Ok((with_it, _)) => environment = with_it,
                Err(error) if self.plugins_locked => return Err(locked_out(&error, &file)),
                Err(error) => refused.push(error),
            }
        }
        Ok((environment, refused))
    }

    /// [`Self::install`] with a note for each plugin that is refused, and for each plugin whose panics end this process.
    pub(crate) fn install_noting(&self) -> Result<Environment, Failure> {
        let (environment, refused) = self.install()?;
        for error in refused {
            report::note(&format!("{error}; it is not loaded"));
        }
        for plugin in plugins(&environment).iter().filter(|one| one.inspected.panics == PanicStrategy::Abort)
        {
            report::note(&format!(
                "{} is built with panic = \"abort\": a panic in it ends this process",
                plugin.shown()
            ));
        }
        Ok(environment)
    }
}

/// The plugins of an environment.
pub(crate) fn plugins(environment: &Environment) -> &[&'static LoadedPlugin] {
    environment.all()
}

fn locked_out(error: &PluginError, file: &Path) -> Failure {
    let help = format!("if you trust it, lock its current bytes: menagerie plugin trust {}", file.display());
    Failure::Failed(error.to_string()).with_help(&help)
}

/// The lock of this user and its file.
///
/// # Errors
/// There is no configuration folder, or the file is not a valid lock.
pub(crate) fn lock() -> Result<(Lock, PathBuf), Failure> {
    let path = ConfigFile::location().map(|file| file.with_file_name(LOCK)).ok_or_else(|| {
        let message = format!("no configuration folder for {LOCK}: neither XDG_CONFIG_HOME nor HOME is set");
        Failure::Failed(message)
    })?;
    Ok((Lock::read(&path)?, path))
}

/// The plugins of an environment, each with name and checksum.
pub(crate) fn plugin_names(environment: &Environment) -> Vec<String> {
    plugins(environment).iter().map(|one| format!("{} {}", one.inspected.id, one.sha256)).collect()
}

//! What the tests of plugins share: the library of the probe, with changes in its bytes, and a model that its parts make.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

mod beside;
mod model;
mod probe;

use menagerie::engine::TextPipeline;
use menagerie::open::{LoadOptions, LoadedModel, ModelBuilder};
use menagerie::registry::{Environment, SpecFolder, SpecFolders};
use menagerie_plugin_host::{LoadedPlugin, PluginLoadOptions, load};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// The built-in environment with every plugin of [`with_plugin`] in this process.
static INSTALLED: Mutex<Option<Environment>> = Mutex::new(None);

/// The built-in environment with the plugin of a file.
pub fn with_plugin(file: impl AsRef<Path>) -> (Environment, &'static LoadedPlugin) {
    let file = file.as_ref();
    let mut installed = INSTALLED.lock().unwrap_or_else(PoisonError::into_inner);
    let others = installed.take().unwrap_or_else(|| Environment::linked().unwrap());
    *installed = Some(load(&others, file, PluginLoadOptions::default()).unwrap().0);
    load(&Environment::linked().unwrap(), file, PluginLoadOptions::default()).unwrap()
}

/// The built-in environment with every plugin that [`with_plugin`] has loaded, each under its own id.
pub fn with_loaded() -> Environment {
    let installed = INSTALLED.lock().unwrap_or_else(PoisonError::into_inner);
    installed.clone().unwrap_or_else(|| Environment::linked().unwrap())
}

/// Opens a model with an environment and the spec folders of the options.
pub fn open_with(
    path: impl AsRef<Path>,
    environment: &Environment,
    options: &LoadOptions,
) -> Result<LoadedModel<TextPipeline>, String> {
    let folders = SpecFolders::default().with_folders(SpecFolder::of_process(&options.specs.folders));
    let environment = environment.with_spec_folders(folders).map_err(|error| error.to_string())?;
    ModelBuilder::new(path)
        .with_environment(&environment)
        .with_options(options)
        .open_text()
        .map_err(|error| error.to_string())
}

pub use beside::library_beside;
pub use model::{LAYERS, Model, VOCABULARY, WIDTH};
pub use probe::Probe;

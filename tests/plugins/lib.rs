//! What the tests of plugins share: the library of the probe, with changes in its bytes, and a model that its parts make.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

mod beside;
mod model;
mod probe;

use menagerie::engine::TextPipeline;
use menagerie::open::{LoadOptions, LoadedModel, open_text_with};
use menagerie::registry::{Environment, SpecFolder, SpecFolders};
use menagerie_plugin_host::{LoadOptions as PluginOptions, Plugin, load, loaded, with_plugins};
use std::path::Path;

/// The built-in environment with the plugin of a file.
pub fn with_plugin(file: impl AsRef<Path>) -> (Environment, &'static Plugin) {
    load(&Environment::linked().unwrap(), file, PluginOptions::default()).unwrap()
}

/// The built-in environment with every plugin that this process has loaded, each under an id of its own.
pub fn with_loaded() -> Environment {
    with_plugins(&Environment::linked().unwrap(), &loaded()).unwrap()
}

/// Opens a model with an environment and the spec folders of the options.
pub fn open_with(
    path: impl AsRef<Path>,
    environment: &Environment,
    options: &LoadOptions,
) -> Result<LoadedModel<TextPipeline>, String> {
    let folders = SpecFolders::default().with_folders(SpecFolder::of_process(&options.spec_dirs));
    let environment = environment.with_spec_folders(folders).map_err(|error| error.to_string())?;
    open_text_with(path, &environment, options).map_err(|error| error.to_string())
}

pub use beside::library_beside;
pub use model::{LAYERS, Model, VOCABULARY, WIDTH};
pub use probe::Probe;

//! [`SpecOptions`]: the folders that specs are read from.

use crate::error::LoadError;
use menagerie_engine::setters;
use menagerie_registry::{Environment, SpecFolder, SpecFolders};
use std::path::PathBuf;

/// The folders that specs, recipes and tables are read from.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct SpecOptions {
    /// Folders that have priority over those of the environment variable, the user and the project.
    pub folders: Vec<PathBuf>,
    /// Whether a file in a folder may replace a spec with the same id.
    pub allow_shadow: bool,
}

setters! { SpecOptions:
    with_folders(folders: Vec<PathBuf>),
    with_allow_shadow(allow_shadow: bool),
}

impl SpecOptions {
    /// Everything that is linked in, with the content of the folders.
    ///
    /// # Errors
    /// A name that two crates register, a kind whose table contradicts itself, or one of [`Self::folders`] that cannot be
    /// read.
    pub fn environment(&self) -> Result<Environment, LoadError> {
        let folders = SpecFolder::of_process(&self.folders);
        let folders = SpecFolders::default().with_folders(folders).with_allow_shadow(self.allow_shadow);
        Environment::linked()
            .and_then(|linked| linked.with_spec_folders(folders))
            .map_err(LoadError::Registry)
    }
}

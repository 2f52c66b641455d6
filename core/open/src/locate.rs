//! [`Locate`]: finds models that are named by a reference instead of a path.

use std::error::Error;
use std::path::{Path, PathBuf};

/// Finds the files of models and adapters that are named by a reference, for instance `org/repo` on a hub.
///
/// A [`crate::ModelBuilder`] without a `Locate` finds files and folders only.
pub trait Locate {
    /// The file or folder of a reference.
    ///
    /// # Errors
    /// Why there is none.
    fn locate(&self, reference: &Path) -> Result<PathBuf, Box<dyn Error + Send + Sync>>;

    /// Whether a name is the short name of a model. A model has priority over a recipe with the same name.
    fn is_model_name(&self, _name: &str) -> bool {
        false
    }
}

/// Finds files and folders only.
pub(crate) struct FilesOnly;

impl Locate for FilesOnly {
    fn locate(&self, reference: &Path) -> Result<PathBuf, Box<dyn Error + Send + Sync>> {
        match std::fs::metadata(reference) {
            Ok(_) => Ok(reference.to_owned()),
            Err(error) => Err(format!("{error}; only files and folders are looked for here").into()),
        }
    }
}

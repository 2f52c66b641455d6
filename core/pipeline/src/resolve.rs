//! [`ResolvedFile`]: a file, the spec of its architecture, and what the spec means for the file; no tensor is touched.

use crate::load_error::LoadError;
use crate::notice::Notice;
use menagerie_assembly::{AssembleOptions, Assembly, ModelFile, ModelTensors, Purpose, assemble};
use menagerie_model::Compute;
use menagerie_registry::{Components, Entry, GGUFArchitecture, Origin, Registry};
use menagerie_spec::{ArchSpec, ModelConfig, Resolution, ResolveInput};
use std::fmt;
use std::sync::Arc;

/// A file with the spec of its architecture.
#[derive(Clone)]
pub struct ResolvedFile {
    /// The file.
    pub file: Arc<dyn ModelFile>,
    /// Its tensors, by the roles of the spec.
    pub tensors: Arc<dyn ModelTensors>,
    /// Where the spec is from.
    pub origin: Origin,
    /// What the spec replaces.
    pub shadows: Option<Origin>,
    /// What the registry wants to be said: files that are not used, folders that cannot be read.
    pub notes: Vec<String>,
    /// The spec.
    pub spec: Arc<ArchSpec>,
    /// What it means for this file.
    pub resolution: Resolution,
}

impl ResolvedFile {
    /// Looks up the architecture of `file` and resolves its spec against the file.
    ///
    /// # Errors
    /// An architecture that is not known (nearest ones named) or faulty; all faults of the file under its spec.
    pub fn new(
        file: Arc<dyn ModelFile>,
        registry: &Registry,
        accept_unread: &[String],
    ) -> Result<Self, LoadError> {
        let architecture = file.architecture()?.to_owned();
        let unusable = |source| LoadError::Architecture { file: file.file(), source };
        let name = GGUFArchitecture::new(&architecture).map_err(unusable)?;
        let (entry, spec) = registry.resolve(&name).map_err(unusable)?;
        let notes = entry.notes().into_iter().chain(registry.notes().iter().cloned()).collect();
        let Entry { origin, shadows, .. } = entry.clone();
        let tensors = file.tensors(Arc::clone(&spec));
        let keys = file.keys()?;
        let mut input = ResolveInput::new(file.format(), file.file(), &architecture, &*keys, &*tensors);
        input.accept_unread = accept_unread.to_vec();
        let resolution = spec.resolve_report(&input).map_err(LoadError::Spec)?;
        Ok(Self { file, tensors, origin, shadows, notes, spec, resolution })
    }

    /// The resolved model.
    pub fn config(&self) -> &ModelConfig {
        &self.resolution.config
    }

    /// Path of the file, for messages.
    pub fn file_name(&self) -> String {
        self.file.file()
    }

    /// The model's name: as the file states it, else the file's.
    pub fn name(&self) -> String {
        let stem = self.file.paths().first().and_then(|path| path.file_stem());
        let stem = stem.map(|stem| stem.to_string_lossy().into_owned());
        self.file.name().map(str::to_owned).or(stem).unwrap_or_else(|| "the model".to_owned())
    }

    /// The whole model over the file's bytes.
    ///
    /// # Errors
    /// [`LoadError::Tensors`] with all faults at once; [`LoadError::Registry`] if two crates register one kind.
    pub fn assemble(&self, compute: &Compute) -> Result<Assembly, LoadError> {
        self.assemble_for(compute, Purpose::AsWritten)
    }

    /// [`Self::assemble`] for a purpose: without the head where vectors are wanted.
    ///
    /// # Errors
    /// As [`Self::assemble`].
    pub fn assemble_for(&self, compute: &Compute, purpose: Purpose) -> Result<Assembly, LoadError> {
        let components = Components::linked().map_err(LoadError::Registry)?;
        let how = AssembleOptions::whole(compute, &components).with_purpose(purpose);
        assemble(self.config(), &*self.tensors, &how).map_err(LoadError::Tensors)
    }

    /// What must be said whenever the file is loaded.
    pub fn notices(&self) -> Vec<Notice> {
        let id = self.spec.id().to_owned();
        let dropped_in = match (&self.shadows, &self.origin) {
            (Some(replaced), used) => {
                Some(Notice::Shadowed { id, used: used.to_string(), replaced: replaced.to_string() })
            }
            (None, origin @ Origin::File { .. }) => {
                Some(Notice::DroppedIn { id, origin: origin.to_string() })
            }
            (None, Origin::BuiltIn(_)) => None,
        };
        let warnings = self.notes.iter().chain(&self.resolution.warnings).cloned().map(Notice::Note);
        dropped_in.into_iter().chain(warnings).collect()
    }
}

impl fmt::Debug for ResolvedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} as {}", self.file_name(), self.spec.id())
    }
}

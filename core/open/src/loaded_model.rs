//! [`LoadedModel`]: a pipeline with the file that it was opened from.

use crate::adapters::LoadedAdapters;
use crate::error::LoadError;
use crate::fingerprint;
use crate::memory::MemoryEstimate;
use crate::merge::Merge;
use crate::notice::Notice;
use crate::opened::OpenedFile;
use crate::resolved::ResolvedFile;
use menagerie_engine::{
    AdapterIdentity, Cacheable, EmbeddingPipeline, Engine, Hookable, PipelineLifecycle, StateFileError,
    StateIdentity, TextPipeline,
};
use menagerie_model::{Adapter, AdapterSet, Arithmetic, Compute};
use menagerie_spec::ModelConfig;
use std::io;
use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A pipeline with the file that it was opened from: what the pipeline does, and what the file says.
pub struct LoadedModel<P> {
    pub(crate) pipeline: P,
    pub(crate) path: PathBuf,
    pub(crate) resolved: ResolvedFile,
    pub(crate) adapters: LoadedAdapters,
    pub(crate) notices: Vec<Notice>,
    pub(crate) memory: MemoryEstimate,
}

impl<P> LoadedModel<P> {
    /// The file, the spec and how it was resolved.
    pub fn resolved(&self) -> &ResolvedFile {
        &self.resolved
    }

    /// The resolved model.
    pub fn config(&self) -> &ModelConfig {
        self.resolved.config()
    }

    /// Id of the spec.
    pub fn architecture(&self) -> &str {
        &self.config().architecture
    }

    /// What must be said at each load.
    pub fn notices(&self) -> &[Notice] {
        &self.notices
    }

    /// What was estimated before loading.
    pub fn memory(&self) -> &MemoryEstimate {
        &self.memory
    }
}

impl<P> Deref for LoadedModel<P> {
    type Target = P;

    fn deref(&self) -> &P {
        &self.pipeline
    }
}

impl<P> DerefMut for LoadedModel<P> {
    fn deref_mut(&mut self) -> &mut P {
        &mut self.pipeline
    }
}

impl<P: Hookable> Hookable for LoadedModel<P> {
    fn add_lifecycle(&mut self, lifecycle: Arc<dyn PipelineLifecycle>) {
        self.pipeline.add_lifecycle(lifecycle);
    }
}

impl LoadedModel<EmbeddingPipeline> {
    /// The file as it is open here, for a pipeline of texts over the same weights ([`crate::LoadOptions::opened`]).
    pub fn opened(&self) -> OpenedFile {
        OpenedFile::new(&self.path, &self.resolved, &self.pipeline.engine().compute)
    }
}

impl LoadedModel<TextPipeline> {
    /// The adapters that are loaded, and where they may act.
    pub fn adapters(&self) -> &LoadedAdapters {
        &self.adapters
    }

    /// Loads an adapter under a name, while others generate: a PEFT folder or a GGUF adapter, on a model of either format.
    ///
    /// # Errors
    /// What is wrong with the adapter, or does not fit the model.
    pub fn load_adapter(&self, name: &str, path: impl AsRef<Path>) -> Result<Arc<Adapter>, LoadError> {
        self.adapters.load(name, path.as_ref(), &self.resolved, self.pipeline.compute())
    }

    /// Adapters that act together, with their weights (1 = as trained): for a request, or for [`TextPipeline::adapt`].
    ///
    /// # Errors
    /// A name that is not loaded; adapters that cannot act together.
    pub fn adapter_set(&self, members: &[(&str, f32)]) -> Result<Arc<AdapterSet>, LoadError> {
        self.adapters.set(members, self.pipeline.compute())
    }

    /// The model's file with adapters in its weights, to be written.
    ///
    /// # Errors
    /// [`LoadError::Merge`]: what cannot be merged into this file.
    pub fn merge<'a>(&'a self, adapters: &'a AdapterSet) -> Result<Merge<'a>, LoadError> {
        if self.adapters.has_mixture() {
            let reason =
                "the model is a mixture, which no single file holds; merge into the base's file".to_owned();
            return Err(LoadError::Merge { file: self.resolved.file_name(), reason });
        }
        Merge::new(&self.resolved, self.adapters.sites(), adapters, self.pipeline.compute())
    }

    /// What tells the adapters of a set from others.
    fn identities(&self, set: &AdapterSet) -> Result<Vec<AdapterIdentity>, StateFileError> {
        let of = |(adapter, weight): (&Arc<Adapter>, f32)| {
            let name = adapter.name().to_owned();
            let unnamed = || StateFileError::Unnamed(format!("adapter \"{name}\""));
            let path = self.adapters.path_of(adapter).ok_or_else(unnamed)?;
            let files = fingerprint::of_files([&path]).map_err(unreadable)?;
            Ok(AdapterIdentity { name, files, weight })
        };
        set.adapters().map(of).collect()
    }
}

impl Cacheable for LoadedModel<TextPipeline> {
    fn engine(&self) -> &Arc<Engine> {
        self.pipeline.engine()
    }

    fn state_identity(&self) -> Result<StateIdentity, StateFileError> {
        let engine = self.pipeline.engine();
        let model = fingerprint::of(&self.resolved).map_err(unreadable)?;
        let adapters = engine.adapters.as_ref().map_or(Ok(Vec::new()), |set| self.identities(set))?;
        let arithmetic = arithmetic_name(&engine.compute);
        let identity = StateIdentity::new(engine, model, arithmetic, adapters);
        Ok(identity.with_effects(self.pipeline.hooks().layers.effects()))
    }
}

fn unreadable((path, source): (PathBuf, io::Error)) -> StateFileError {
    StateFileError::System { file: path.display().to_string(), action: "read", source }
}

/// The arithmetic, with the options of the device that change results.
fn arithmetic_name(compute: &Compute) -> String {
    let mut name = match compute.arithmetic {
        Arithmetic::Exact => "exact",
        Arithmetic::Fast => "fast",
    }
    .to_owned();
    for (option, value) in compute.backend.settings() {
        name += &format!(" with {option}={value}");
    }
    name
}

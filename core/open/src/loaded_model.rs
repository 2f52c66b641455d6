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
    AdapterIdentifier, Cacheable, EmbeddingPipeline, Engine, Hookable, IdentityError, PipelineLifecycle,
    StateIdentity, TextPipeline,
};
use menagerie_model::{Adapter, AdapterSet};
use menagerie_spec::ModelConfig;
use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A pipeline with the file that it was opened from.
pub struct LoadedModel<P> {
    pub(crate) pipeline: P,
    pub(crate) path: PathBuf,
    pub(crate) resolved: ResolvedFile,
    pub(crate) adapters: Arc<LoadedAdapters>,
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

    /// What every load of the model reports.
    pub fn notices(&self) -> &[Notice] {
        &self.notices
    }

    /// The memory that was estimated before loading.
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
    /// The open file, for a text pipeline over the same weights ([`crate::ModelBuilder::with_opened`]).
    pub fn opened(&self) -> OpenedFile {
        OpenedFile::new(&self.path, &self.resolved, &self.pipeline.engine().compute)
    }
}

impl LoadedModel<TextPipeline> {
    /// The loaded adapters, and the places where adapters can act.
    pub fn adapters(&self) -> &LoadedAdapters {
        &self.adapters
    }

    /// Loads an adapter under a name: a PEFT folder or a GGUF adapter, for a model of either format. Generations may run
    /// meanwhile.
    ///
    /// # Errors
    /// What is wrong with the adapter, or does not fit the model.
    pub fn load_adapter(&self, name: &str, path: impl AsRef<Path>) -> Result<Arc<Adapter>, LoadError> {
        self.adapters.load(name, path.as_ref(), &self.resolved, self.pipeline.compute())
    }

    /// Adapters that act together, each with its weight (1 = as trained), for a request or for [`TextPipeline::adapt`].
    ///
    /// # Errors
    /// A name that is not loaded; adapters that cannot act together.
    pub fn adapter_set(&self, members: &[(&str, f32)]) -> Result<Arc<AdapterSet>, LoadError> {
        self.adapters.set(members, self.pipeline.compute())
    }

    /// Merges adapters into the weights of the model's file, so that they can be written.
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
}

impl Cacheable for LoadedModel<TextPipeline> {
    fn engine(&self) -> &Arc<Engine> {
        self.pipeline.engine()
    }

    fn state_identity(&self) -> Result<StateIdentity, IdentityError> {
        let engine = self.pipeline.engine();
        let model = fingerprint::of(&self.resolved).map_err(fingerprint::unreadable)?;
        let adapters =
            engine.adapters.as_ref().map_or(Ok(Vec::new()), |set| self.adapters.identities(set))?;
        let arithmetic = fingerprint::arithmetic_name(&engine.compute);
        let identity = StateIdentity::new(engine, model, arithmetic, adapters);
        Ok(identity.with_effects(self.pipeline.hooks().layers.effects()))
    }

    fn adapter_identifier(&self) -> Arc<dyn AdapterIdentifier> {
        Arc::clone(&self.adapters) as _
    }
}

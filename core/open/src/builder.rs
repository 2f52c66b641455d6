//! [`ModelBuilder`]: opens a model.

use crate::error::LoadError;
use crate::loaded_model::LoadedModel;
use crate::loading::load;
use crate::locate::Locate;
use crate::opened::OpenedFile;
use crate::opening::{finish_embedding, finish_text};
use crate::options::LoadOptions;
use crate::request::{LinearWrapping, LoadProgress, LoadRequest};
use crate::source::ModelSource;
use crate::stage_options::{StageShare, StageStart};
use crate::stages::{self, LoadedStage};
use menagerie_assembly::Purpose;
use menagerie_engine::{EmbeddingPipeline, TextPipeline};
use menagerie_model::LinearWrapper;
use menagerie_registry::Environment;
use menagerie_spec::ArchSpec;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Opens a model: as a language model, for embeddings, or as a stage.
///
/// The model is a file, a folder, or a recipe, whose base, adapters, mixture, keys and chat template are resolved here.
/// Everything except the model is optional.
pub struct ModelBuilder<'a> {
    model: ModelTarget,
    options: LoadOptions,
    environment: Option<Environment>,
    locate: Option<&'a dyn Locate>,
    progress: Option<LoadProgress>,
    wrapping: Option<LinearWrapping>,
    opened: Option<OpenedFile>,
}

/// The model, before or after its files are found.
enum ModelTarget {
    Reference(PathBuf),
    Source(Box<ModelSource>),
}

impl<'a> ModelBuilder<'a> {
    /// A model by its path, or by a reference that a [`Locate`] finds.
    pub fn new(reference: impl AsRef<Path>) -> Self {
        Self::of(ModelTarget::Reference(reference.as_ref().to_owned()))
    }

    /// A model whose files are found already.
    pub fn of_source(source: ModelSource) -> Self {
        Self::of(ModelTarget::Source(Box::new(source)))
    }

    fn of(model: ModelTarget) -> Self {
        let options = LoadOptions::default();
        Self { model, options, environment: None, locate: None, progress: None, wrapping: None, opened: None }
    }

    /// With these options.
    #[must_use]
    pub fn with_options(self, options: &LoadOptions) -> Self {
        Self { options: options.clone(), ..self }
    }

    /// With this environment instead of the linked one with the folders of [`LoadOptions::specs`].
    #[must_use]
    pub fn with_environment(self, environment: &Environment) -> Self {
        Self { environment: Some(environment.clone()), ..self }
    }

    /// Finds the model, and what a recipe names, with `locate`.
    #[must_use]
    pub fn with_locate(self, locate: &'a dyn Locate) -> Self {
        Self { locate: Some(locate), ..self }
    }

    /// Calls `progress` whenever a tensor is quantized while loading, with the number of tensors that are done and the
    /// number of all.
    #[must_use]
    pub fn with_progress(self, progress: impl Fn(usize, usize) + Send + Sync + 'static) -> Self {
        Self { progress: Some(LoadProgress(Arc::new(progress))), ..self }
    }

    /// Wraps every linear of the model in the wrapper that `wrapper` makes for its spec.
    #[must_use]
    pub fn with_linear_wrapper(
        self,
        wrapper: impl Fn(&Arc<ArchSpec>) -> Arc<dyn LinearWrapper> + Send + Sync + 'static,
    ) -> Self {
        Self { wrapping: Some(LinearWrapping(Arc::new(wrapper))), ..self }
    }

    /// Shares the file and the weights of a model that is open with the same options, if it is the same model.
    #[must_use]
    pub fn with_opened(self, opened: OpenedFile) -> Self {
        Self { opened: Some(opened), ..self }
    }

    /// Opens the model as a language model.
    ///
    /// A missing or unreadable tokenizer or chat template is not an error: [`TextPipeline::tokenizer`] and
    /// [`TextPipeline::chat_format`] return the reason.
    ///
    /// # Errors
    /// All faults of the file, its architecture, keys or tensors; of the recipe; of the options; too little memory.
    pub fn open_text(self) -> Result<LoadedModel<TextPipeline>, LoadError> {
        let request = self.request()?;
        finish_text(load(&request, Purpose::AsWritten)?, &request)
    }

    /// Opens the model for embeddings: an encoder, or a language model, whose head is left out.
    ///
    /// # Errors
    /// As [`Self::open_text`].
    pub fn open_embedding(self) -> Result<LoadedModel<EmbeddingPipeline>, LoadError> {
        let request = self.request()?;
        finish_embedding(load(&request, Purpose::Vectors)?, &request)
    }

    /// Serves a stage of the model over standard input and output until the chain ends. The options must be those with
    /// which the process of the chain opens the model. Only the weights of the stage's layers are read.
    ///
    /// # Errors
    /// Standard input and output are not the links of a chain. The chain gets every other error.
    pub fn serve_stage(self, start: &StageStart) -> Result<(), LoadError> {
        let path = match &self.model {
            ModelTarget::Reference(path) => path,
            ModelTarget::Source(source) => &source.path,
        };
        let name = path.display().to_string();
        stages::serve_stage(&name, move || self.request(), start)
    }

    /// Loads a share of the model's layers, for chains in other processes. Only the weights of these layers are read.
    ///
    /// # Errors
    /// As [`Self::open_text`]; the model has no such share.
    pub fn open_stage(self, share: &StageShare) -> Result<LoadedStage, LoadError> {
        stages::load_stage(&self.request()?, share)
    }

    /// The request with the files of the model, and the values of a recipe.
    fn request(self) -> Result<LoadRequest, LoadError> {
        let environment = self.environment.map_or_else(|| self.options.specs.environment(), Ok)?;
        let source = match self.model {
            ModelTarget::Reference(reference) => ModelSource::find(reference, &environment, self.locate)?,
            ModelTarget::Source(source) => *source,
        };
        Ok(LoadRequest {
            options: source.options(&self.options, &environment)?,
            recipes: source.recipes(),
            path: source.path,
            environment,
            progress: self.progress,
            wrapping: self.wrapping,
            opened: self.opened,
        })
    }
}

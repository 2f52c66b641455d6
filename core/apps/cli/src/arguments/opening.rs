//! [`ModelOpening`]: a model that is found, and the ways to open it.

use crate::arguments::draft::DraftArguments;
use crate::arguments::model::{ModelArguments, NO_ADAPTERS};
#[cfg(feature = "serve")]
use crate::arguments::model_source::find_here;
use crate::arguments::model_source::find_source;
use crate::arguments::specs::SpecArguments;
use crate::arguments::template::TemplateArguments;
use crate::failure::Failure;
use crate::interrupt;
use crate::screen::{progress, report};
use menagerie::ModelBuilder;
use menagerie::assembly::open_model;
use menagerie::engine::{EmbeddingPipeline, TextPipeline};
use menagerie::files::path_text;
use menagerie::model::Backend;
use menagerie::model::LinearWrapper;
use menagerie::open::{
    Device, GateOption, LoadError, LoadOptions, LoadedModel, MixtureOption, ModelSource, ResolvedFile,
};
#[cfg(feature = "cluster")]
use menagerie::open::{LoadedStage, StageShare};
use menagerie::registry::Environment;
use menagerie::spec::ArchSpec;
#[cfg(feature = "serve")]
use menagerie::spec::config::OutputConfig;
use std::path::Path;
use std::sync::Arc;

/// Makes the wrapper of a model's linears.
type MakeWrapper = dyn Fn(&Arc<ArchSpec>) -> Arc<dyn LinearWrapper> + Send + Sync;

/// A model that is found, with the environment and the options to open it.
#[derive(Clone)]
pub(crate) struct ModelOpening<'a> {
    arguments: &'a ModelArguments,
    environment: Environment,
    source: ModelSource,
    options: LoadOptions,
    wrapper: Option<Arc<MakeWrapper>>,
    /// The same model, open for embeddings. Its notices are printed already.
    vectors: Option<&'a LoadedModel<EmbeddingPipeline>>,
    /// Whether the notices of the model are printed.
    prints_notices: bool,
}

impl ModelArguments {
    /// Finds the files of the model and of its recipe, downloads those that are not on this machine, and builds the
    /// environment with the spec folders.
    pub(crate) fn opening(&self, installed: &Environment) -> Result<ModelOpening<'_>, Failure> {
        let opening = self.opening_of_stage(installed)?;
        self.note_threads();
        Ok(opening)
    }

    /// [`Self::opening`] in the process of a stage, without the notes that the process of the chain prints.
    pub(crate) fn opening_of_stage(&self, installed: &Environment) -> Result<ModelOpening<'_>, Failure> {
        // An unknown device is refused before anything is downloaded.
        self.check_device(installed)?;
        let _at_once = interrupt::at_once()?;
        let environment = self.specs.environment(installed)?;
        let source = find_source(&self.model, &self.specs, &environment)?;
        Ok(self.opening_of(source, environment))
    }

    /// [`Self::opening`] of a model that is on this machine: nothing is downloaded.
    #[cfg(feature = "serve")]
    pub(crate) fn opening_here(&self, installed: &Environment) -> Result<ModelOpening<'_>, Failure> {
        let environment = self.specs.environment(installed)?;
        let source = find_here(&self.model, &self.specs, &environment)?;
        Ok(self.opening_of(source, environment))
    }

    fn opening_of(&self, source: ModelSource, environment: Environment) -> ModelOpening<'_> {
        let options = self.load_options();
        let (wrapper, vectors, prints_notices) = (None, None, true);
        ModelOpening { arguments: self, environment, source, options, wrapper, vectors, prints_notices }
    }
}

impl<'a> ModelOpening<'a> {
    /// The model's file; of a recipe, that of its base.
    pub(crate) fn path(&self) -> &Path {
        &self.source.path
    }

    /// The arguments that select specs.
    pub(crate) fn specs(&self) -> &SpecArguments {
        &self.arguments.specs
    }

    /// The mixture of the recipe, if it has one.
    pub(crate) fn mixture(&self) -> Option<&MixtureOption> {
        self.source.ingredients.as_ref()?.mixture.as_ref()
    }

    /// With the user's chat template, if there is one.
    pub(crate) fn with_template(mut self, template: &TemplateArguments) -> Result<Self, Failure> {
        let _at_once = interrupt::at_once()?;
        self.options.chat_template = template.source(&self.environment)?;
        Ok(self)
    }

    /// With the head for further tokens, if drafts need it.
    pub(crate) fn with_draft(mut self, draft: &DraftArguments) -> Self {
        self.options.keys.nextn = draft.needs_head();
        self
    }

    /// On a device that another model has open.
    pub(crate) fn with_backend(mut self, backend: Arc<dyn Backend>) -> Self {
        self.options.placement.device = Device::Given(backend);
        // They are those of the other model.
        self.options.placement.threads = None;
        self
    }

    /// With a limit of its memory.
    #[cfg(feature = "serve")]
    pub(crate) fn with_memory_limit(mut self, bytes: Option<u64>) -> Self {
        self.options.context.memory_limit = bytes;
        self
    }

    /// The model's files, and what its recipe adds.
    #[cfg(feature = "serve")]
    pub(crate) fn source(&self) -> &ModelSource {
        &self.source
    }

    /// With another gate of the mixture.
    pub(crate) fn with_gate(mut self, gate: GateOption) -> Self {
        self.options.composition.mixture =
            self.mixture().cloned().map(|mixture| MixtureOption { gate, ..mixture });
        self
    }

    /// With a wrapper around every linear.
    pub(crate) fn with_linear_wrapper(
        self,
        wrapper: impl Fn(&Arc<ArchSpec>) -> Arc<dyn LinearWrapper> + Send + Sync + 'static,
    ) -> Self {
        Self { wrapper: Some(Arc::new(wrapper)), ..self }
    }

    /// With the weights of the same model that is open for embeddings.
    pub(crate) fn with_vectors(self, vectors: &'a LoadedModel<EmbeddingPipeline>) -> Self {
        Self { vectors: Some(vectors), ..self }
    }

    /// With another environment.
    pub(crate) fn with_environment(self, environment: Environment) -> Self {
        Self { environment, ..self }
    }

    /// Without printing the notices of the model.
    pub(crate) fn without_notices(self) -> Self {
        Self { prints_notices: false, ..self }
    }

    /// Opens the model for text. Ctrl-C ends the process while the model loads.
    pub(crate) fn open_text(&self) -> Result<LoadedModel<TextPipeline>, Failure> {
        self.open(ModelBuilder::open_text)
    }

    /// Loads a share of the model's layers. Ctrl-C ends the process meanwhile.
    #[cfg(feature = "cluster")]
    pub(crate) fn open_stage(&self, share: &StageShare) -> Result<LoadedStage, Failure> {
        let _at_once = interrupt::at_once()?;
        let spinner = progress::spinner(&format!("loading {}", path_text(self.path())));
        let bar = spinner.clone();
        let builder = self.builder()?.with_progress(move |done, all| {
            bar.set_message(format!("quantizing tensor {done} of {all}"));
        });
        let opened = builder.open_stage(share);
        spinner.finish_and_clear();
        Ok(opened?)
    }

    /// Opens the model for embeddings. Ctrl-C ends the process while the model loads.
    pub(crate) fn open_embedding(&self) -> Result<LoadedModel<EmbeddingPipeline>, Failure> {
        self.refuse_adapters()?;
        self.open(ModelBuilder::open_embedding)
    }

    /// Refuses adapters, for embeddings.
    pub(crate) fn refuse_adapters(&self) -> Result<(), Failure> {
        self.arguments.refuse_lora()?;
        let of_recipe = self.source.ingredients.iter().flat_map(|ingredients| &ingredients.adapters);
        match self.options.composition.adapters.iter().chain(of_recipe).next() {
            None => Ok(()),
            Some(_) => Err(Failure::about(&self.arguments.model, NO_ADAPTERS).with_help(
                "use the base model of the recipe, or merge the adapters into a model with `menagerie merge`",
            )),
        }
    }

    fn open<P>(
        &self,
        open: impl FnOnce(ModelBuilder<'static>) -> Result<LoadedModel<P>, LoadError>,
    ) -> Result<LoadedModel<P>, Failure> {
        let _at_once = interrupt::at_once()?;
        let spinner = progress::spinner(&format!("loading {}", path_text(self.path())));
        let bar = spinner.clone();
        let builder = self.builder()?.with_progress(move |done, all| {
            bar.set_message(format!("quantizing tensor {done} of {all}"));
        });
        let opened = open(builder);
        spinner.finish_and_clear();
        let opened = opened?;
        let printed = self.vectors.map_or(&[][..], LoadedModel::notices);
        let new = opened.notices().iter().filter(|notice| self.prints_notices && !printed.contains(notice));
        new.for_each(|notice| report::note(&notice.to_string()));
        Ok(opened)
    }

    /// The builder of the model with all options.
    pub(crate) fn builder(&self) -> Result<ModelBuilder<'static>, Failure> {
        let mut options = self.options.clone();
        options.weights.quantization = self.arguments.quantization()?;
        if options.context.tokens == Some(0) {
            options.context.tokens = Some(self.trained_context()?);
        }
        let mut builder = ModelBuilder::of_source(self.source.clone())
            .with_environment(&self.environment)
            .with_options(&options);
        if let Some(wrapper) = self.wrapper.clone() {
            builder = builder.with_linear_wrapper(move |spec| wrapper(spec));
        }
        Ok(match self.vectors {
            Some(vectors) => builder.with_opened(vectors.opened()),
            None => builder,
        })
    }

    /// The output that the model states.
    #[cfg(feature = "serve")]
    pub(crate) fn stated_output(&self) -> Result<OutputConfig, Failure> {
        Ok(self.resolved()?.config().output.clone())
    }

    /// The file with its spec.
    fn resolved(&self) -> Result<ResolvedFile, Failure> {
        let keys = self.source.keys(self.options.keys.clone());
        let file = open_model(self.path(), self.environment.entries(), true)?;
        Ok(ResolvedFile::new(file, &self.environment, keys)?)
    }

    /// The training context length that the model states.
    fn trained_context(&self) -> Result<usize, Failure> {
        let stated = self.resolved()?.config().context_length;
        stated.filter(|&tokens| tokens > 0).ok_or_else(|| {
            Failure::about(path_text(self.path()), "the file does not state its training context length")
                .with_help("give -c TOKENS")
        })
    }
}

//! [`TextPipeline`]: a language model with what belongs to it: tokenizer, chat format, cache type, hooks.

use crate::adapters::LoadedAdapters;
use crate::batch::Batch;
use crate::bench::{
    BenchOptions, BenchProgress, BenchResult, TogetherOptions, TogetherResult, bench, bench_together,
};
use crate::capability::{Cacheable, ChatCapable, Hookable, MissingCapability, Tokenizing};
use crate::engine::Engine;
use crate::error::GenerateError;
use crate::generate::{ChatSession, Session};
use crate::hooks::{PipelineHooks, PipelineLifecycle};
use crate::init::{LoadError, MemoryEstimate, Notice, ResolvedFile};
use crate::logits::{Logits, LogitsOptions, logits};
use crate::merge::Merge;
use crate::perplexity::{
    Against, PerplexityOptions, PerplexityProgress, PerplexityResult, TextChunks, perplexity,
};
use crate::sampling::SamplingOptions;
use crate::scheduler::{Scheduler, SchedulerOptions};
use crate::state_file::{Opened, StateFileError, StateIdentity};
use menagerie_model::{Adapter, AdapterSet, Compute, KvType, LayerHook, StageTrace, Trace};
use menagerie_spec::ModelConfig;
use std::path::Path;
use std::sync::Arc;

/// What a pipeline is made of; [`TextPipeline::open`] fills it from a file, tests by hand.
pub struct PipelineParts {
    /// The model's name, for people.
    pub name: String,
    /// Model, kernels and cache type.
    pub engine: Engine,
    /// Text to tokens, or why not.
    pub tokenizer: Result<Arc<dyn Tokenizing>, MissingCapability>,
    /// Messages to prompts, or why not.
    pub chat_format: Result<Arc<dyn ChatCapable>, MissingCapability>,
    /// The file and the spec it was resolved with; absent for models built in code.
    pub resolved: Option<ResolvedFile>,
    /// Where adapters may act, and those that are loaded.
    pub adapters: LoadedAdapters,
    /// What must be said at each load.
    pub notices: Vec<Notice>,
    /// What was estimated before loading.
    pub memory: MemoryEstimate,
    /// Sampling defaults of the file.
    pub sampling: SamplingOptions,
}

/// A language model that generates text.
///
/// Whether it also reads and writes text and holds conversations depends on the file: [`Self::tokenizer`] and
/// [`Self::chat_format`] give the capability, or say why it is missing.
pub struct TextPipeline {
    name: String,
    engine: Arc<Engine>,
    hooks: PipelineHooks,
    tokenizer: Result<Arc<dyn Tokenizing>, MissingCapability>,
    chat_format: Result<Arc<dyn ChatCapable>, MissingCapability>,
    resolved: Option<ResolvedFile>,
    adapters: LoadedAdapters,
    notices: Vec<Notice>,
    memory: MemoryEstimate,
    sampling: SamplingOptions,
}

impl TextPipeline {
    /// Puts the parts together.
    pub fn from_parts(parts: PipelineParts) -> Self {
        Self {
            name: parts.name,
            engine: Arc::new(parts.engine),
            hooks: PipelineHooks::default(),
            tokenizer: parts.tokenizer,
            chat_format: parts.chat_format,
            resolved: parts.resolved,
            adapters: parts.adapters,
            notices: parts.notices,
            memory: parts.memory,
            sampling: parts.sampling,
        }
    }

    /// What must be said at each load.
    pub fn notices(&self) -> &[Notice] {
        &self.notices
    }

    /// Model, kernels and cache type.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// Device, kernels and arithmetic.
    pub fn compute(&self) -> &Compute {
        &self.engine.compute
    }

    /// How keys and values are stored.
    pub fn kv_type(&self) -> KvType {
        self.engine.kv_type
    }

    /// Columns of the logits.
    pub fn vocabulary(&self) -> usize {
        self.engine.vocabulary()
    }

    /// What was estimated before loading.
    pub fn memory(&self) -> &MemoryEstimate {
        &self.memory
    }

    /// The file, the spec and how it was resolved; absent for models built in code.
    pub fn resolved(&self) -> Option<&ResolvedFile> {
        self.resolved.as_ref()
    }

    /// The resolved model; absent for models built in code.
    pub fn config(&self) -> Option<&ModelConfig> {
        self.resolved.as_ref().map(|resolved| &resolved.resolution.config)
    }

    /// Id of the spec; `custom` for models built in code.
    pub fn architecture(&self) -> &str {
        self.config().map_or("custom", |config| &config.architecture)
    }

    /// llama.cpp's sampling defaults, or what the file recommends instead (`general.sampling.*`).
    pub fn sampling_defaults(&self) -> SamplingOptions {
        self.sampling.clone()
    }

    /// Text to tokens and back.
    ///
    /// # Errors
    /// The file has no tokenizer.
    pub fn tokenizer(&self) -> Result<&Arc<dyn Tokenizing>, MissingCapability> {
        self.tokenizer.as_ref().map_err(Clone::clone)
    }

    /// Messages to prompts.
    ///
    /// # Errors
    /// The file has no chat template (or no tokenizer).
    pub fn chat_format(&self) -> Result<&Arc<dyn ChatCapable>, MissingCapability> {
        self.chat_format.as_ref().map_err(Clone::clone)
    }

    /// The model's name, for people.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Most tokens of a sequence, prompt and answer together.
    pub fn context(&self) -> usize {
        self.engine.context
    }

    /// The adapters that are loaded, and where they may act.
    pub fn adapters(&self) -> &LoadedAdapters {
        &self.adapters
    }

    /// Loads an adapter under a name, while others generate: a PEFT folder or a GGUF adapter, on a model of either format.
    ///
    /// # Errors
    /// What is wrong with the adapter, or does not fit the model; a model that was built in code takes none.
    pub fn load_adapter(&self, name: &str, path: impl AsRef<Path>) -> Result<Arc<Adapter>, LoadError> {
        let path = path.as_ref();
        let Some(resolved) = &self.resolved else {
            let reason = "a model that was built in code has no names that an adapter could be fitted by";
            return Err(LoadError::Options(reason.to_owned()));
        };
        self.adapters.load(name, path, resolved, &self.engine.compute)
    }

    /// Adapters that act together, with their weights (1 = as trained): for a request, or for [`Self::adapt`].
    ///
    /// # Errors
    /// A name that is not loaded; adapters that cannot act together.
    pub fn adapter_set(&self, members: &[(&str, f32)]) -> Result<Arc<AdapterSet>, LoadError> {
        self.adapters.set(members, &self.engine.compute)
    }

    /// The model's file with adapters in its weights, to be written.
    ///
    /// # Errors
    /// [`LoadError::Merge`]: what cannot be merged into this file.
    pub fn merge<'a>(&'a self, adapters: &'a AdapterSet) -> Result<Merge<'a>, LoadError> {
        let Some(resolved) = &self.resolved else {
            return Err(LoadError::Options("a model that was built in code has no file".to_owned()));
        };
        if self.adapters.has_mixture() {
            let reason =
                "the model is a mixture, which no single file holds; merge into the base's file".to_owned();
            return Err(LoadError::Merge { file: resolved.file_name(), reason });
        }
        Merge::new(resolved, self.adapters.sites(), adapters, &self.engine.compute)
    }

    /// The adapters of sessions, batches, logits and measurements begun from now on; absent = the bare model.
    pub fn adapt(&mut self, adapters: Option<Arc<AdapterSet>>) {
        self.engine = Arc::new(Engine { adapters, ..(*self.engine).clone() });
    }

    /// Adds a hook to sessions and batches begun from now on.
    pub fn add_hook(&mut self, hook: Arc<dyn LayerHook>) {
        self.hooks.layers.push(hook);
    }

    /// What is called while sessions and batches begun from now on work, to be changed.
    pub fn hooks_mut(&mut self) -> &mut PipelineHooks {
        &mut self.hooks
    }

    /// What is called while sessions and batches begun from now on work.
    pub fn hooks(&self) -> &PipelineHooks {
        &self.hooks
    }

    /// Waits until every step that was begun is done, and lets hooks have what their copies in processes of stages kept.
    ///
    /// # Errors
    /// A step that failed meanwhile, a stage that is gone; what a hook returns.
    pub fn settle(&self) -> Result<(), GenerateError> {
        Ok(self.engine.model.settle(&self.hooks.layers)?)
    }

    /// What each stage of the model noted for a trace; none where the model is not split, and the trace has all of it.
    ///
    /// # Errors
    /// A step that failed meanwhile, a stage that is gone.
    pub fn stage_traces(&self, trace: &Trace) -> Result<Vec<StageTrace>, GenerateError> {
        Ok(self.engine.model.stage_traces(trace)?)
    }

    /// A sequence of its own; sessions share the model without a lock.
    ///
    /// # Errors
    /// The state cannot be allocated.
    pub fn session(&self) -> Result<Session, GenerateError> {
        let scheduler = Scheduler::for_one(Arc::clone(&self.engine), self.hooks.clone())?;
        Session::new(scheduler, self.tokenizer.as_ref().ok().cloned())
    }

    /// Several sequences that share steps and one pool of state.
    ///
    /// # Errors
    /// The state cannot be allocated.
    pub fn batch(&self, options: SchedulerOptions) -> Result<Batch, GenerateError> {
        let scheduler = Scheduler::new(Arc::clone(&self.engine), self.hooks.clone(), options)?;
        Ok(Batch::new(scheduler, self.tokenizer.as_ref().ok().cloned()))
    }

    /// An empty conversation.
    ///
    /// # Errors
    /// No chat format, or the state cannot be allocated.
    pub fn chat(&self) -> Result<ChatSession, GenerateError> {
        let format = Arc::clone(self.chat_format()?);
        Ok(ChatSession::new(self.session()?, format))
    }

    /// Logits `[T, V]` of `tokens`, in a sequence of its own.
    ///
    /// # Errors
    /// As [`logits()`].
    pub fn logits(&self, tokens: &[u32], options: &LogitsOptions) -> Result<Logits, GenerateError> {
        logits(&self.engine, self.hooks.clone(), tokens, options)
    }

    /// Prompt and generation speed.
    ///
    /// # Errors
    /// As [`bench()`].
    pub fn bench(
        &self,
        options: &BenchOptions,
        on_progress: &mut dyn FnMut(BenchProgress),
    ) -> Result<BenchResult, GenerateError> {
        bench(&self.engine, &self.hooks, options, on_progress)
    }

    /// How well the model expects a text.
    ///
    /// # Errors
    /// As [`perplexity()`].
    pub fn perplexity(
        &self,
        chunks: &TextChunks,
        against: Against,
        options: &PerplexityOptions,
        on_chunk: &mut dyn FnMut(PerplexityProgress),
    ) -> Result<PerplexityResult, GenerateError> {
        perplexity(&self.engine, &self.hooks, chunks, against, options, on_chunk)
    }

    /// Speed of several sequences that share steps.
    ///
    /// # Errors
    /// As [`bench_together()`].
    pub fn bench_together(&self, options: &TogetherOptions) -> Result<TogetherResult, GenerateError> {
        bench_together(&self.engine, &self.hooks, options)
    }
}

impl Cacheable for TextPipeline {
    fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    fn state_identity(&self) -> Result<StateIdentity, StateFileError> {
        let resolved =
            self.resolved.as_ref().ok_or_else(|| StateFileError::Unnamed("the model".to_owned()))?;
        let opened = Opened { resolved, engine: &self.engine, adapters: &self.adapters };
        StateIdentity::of(opened, &self.hooks.layers.effects())
    }
}

impl Hookable for TextPipeline {
    fn add_lifecycle(&mut self, lifecycle: Arc<dyn PipelineLifecycle>) {
        self.hooks.lifecycles.push(lifecycle);
    }
}

//! [`TextPipeline`]: a language model with its tokenizer, chat format, hooks and sampling defaults.

use crate::capability::{ChatCapable, Tokenizing};
use crate::chat::ChatSession;
use crate::disk_cache::DiskCache;
use crate::engine::Engine;
use crate::error::{GenerateError, MissingCapability};
use crate::hooks::{Hookable, NamedHook, PipelineHooks, PipelineLifecycle};
use crate::queue::Queue;
use crate::sampling::SamplingOptions;
use crate::scheduler::{Scheduler, SchedulerOptions, check_drafts};
use crate::session::Session;
use menagerie_model::{AdapterSet, Compute, KvType, LayerHook, StageTrace, Trace};
use std::sync::Arc;

/// A language model that generates text.
///
/// Whether it can also read and write text and hold conversations depends on the file: [`Self::tokenizer`] and
/// [`Self::chat_format`] return the capability, or the reason why it is missing.
#[derive(Clone)]
pub struct TextPipeline {
    name: String,
    engine: Arc<Engine>,
    hooks: PipelineHooks,
    tokenizer: Result<Arc<dyn Tokenizing>, MissingCapability>,
    chat_format: Result<Arc<dyn ChatCapable>, MissingCapability>,
    sampling: SamplingOptions,
    disk: Option<Arc<DiskCache>>,
}

impl TextPipeline {
    /// A model of this name that takes and returns token ids only.
    pub fn new(name: impl Into<String>, engine: Engine) -> Self {
        let name = name.into();
        let reason = "the pipeline was created without one".to_owned();
        let missing = MissingCapability::Tokenizer { model: name.clone(), reason };
        Self {
            name,
            engine: Arc::new(engine),
            hooks: PipelineHooks::default(),
            tokenizer: Err(missing.clone()),
            chat_format: Err(missing),
            sampling: SamplingOptions::default(),
            disk: None,
        }
    }

    /// Sets the tokenizer and the chat format, or why they are missing.
    #[must_use]
    pub fn with_text(
        self,
        tokenizer: Result<Arc<dyn Tokenizing>, MissingCapability>,
        chat_format: Result<Arc<dyn ChatCapable>, MissingCapability>,
    ) -> Self {
        Self { tokenizer, chat_format, ..self }
    }

    /// Sets the sampling defaults.
    #[must_use]
    pub fn with_sampling_defaults(self, sampling: SamplingOptions) -> Self {
        Self { sampling, ..self }
    }

    /// Sets the hooks.
    #[must_use]
    pub fn with_hooks(self, hooks: PipelineHooks) -> Self {
        Self { hooks, ..self }
    }

    /// Its engine: model, device and cache type.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// Device, kernels and arithmetic.
    pub fn compute(&self) -> &Compute {
        &self.engine.compute
    }

    /// The type of cached keys and values.
    pub fn kv_type(&self) -> KvType {
        self.engine.kv_type
    }

    /// The width of the logits.
    pub fn vocabulary(&self) -> usize {
        self.engine.vocabulary()
    }

    /// llama.cpp's sampling defaults, or those that the file recommends (`general.sampling.*`).
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
    /// The file has no chat template or no tokenizer.
    pub fn chat_format(&self) -> Result<&Arc<dyn ChatCapable>, MissingCapability> {
        self.chat_format.as_ref().map_err(Clone::clone)
    }

    /// The model's name, for messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The most tokens of a sequence, prompt and answer together.
    pub fn context(&self) -> usize {
        self.engine.context
    }

    /// Sets the adapters of everything that is started later; `None` = the bare model.
    pub fn adapt(&mut self, adapters: Option<Arc<AdapterSet>>) {
        self.engine = Arc::new(Engine { adapters, ..(*self.engine).clone() });
    }

    /// Stores the states of sessions and queues that are created later in this cache, which was opened for this
    /// pipeline, and lets their requests start with states that are in it. `None` = no longer.
    pub fn cache_on_disk(&mut self, cache: Option<Arc<DiskCache>>) {
        self.disk = cache;
    }

    /// The cache on disk of sessions and queues that are created later.
    pub fn disk_cache(&self) -> Option<&Arc<DiskCache>> {
        self.disk.as_ref()
    }

    /// Adds a hook to sessions and queues that are created later.
    pub fn add_hook(&mut self, hook: Arc<dyn LayerHook>) {
        self.hooks.layers.push(hook);
    }

    /// Adds a plugin's hook, made for this model.
    ///
    /// # Errors
    /// The model does not have the hook's layers, or the hook refuses the model; as a sentence.
    pub fn add_named_hook(&mut self, hook: &NamedHook) -> Result<(), String> {
        let shape = self.engine.model.shape();
        let hook = hook.for_model(shape.n_layers, shape.embedding_length)?;
        self.add_hook(hook);
        Ok(())
    }

    /// The hooks of sessions and queues that are created later, to change them.
    pub fn hooks_mut(&mut self) -> &mut PipelineHooks {
        &mut self.hooks
    }

    /// The hooks of sessions and queues that are created later.
    pub fn hooks(&self) -> &PipelineHooks {
        &self.hooks
    }

    /// Waits until every step is complete, and passes hooks what their copies in the processes of stages have
    /// collected.
    ///
    /// # Errors
    /// A step failed, a stage is gone, or an error of a hook.
    pub fn settle(&self) -> Result<(), GenerateError> {
        Ok(self.engine.model.settle(&self.hooks.layers)?)
    }

    /// The trace of each stage; empty if the model is not split, and `trace` has everything.
    ///
    /// # Errors
    /// A step failed, or a stage is gone.
    pub fn stage_traces(&self, trace: &Trace) -> Result<Vec<StageTrace>, GenerateError> {
        Ok(self.engine.model.stage_traces(trace)?)
    }

    /// Checks that answers can be drafted ([`crate::Request::draft`]).
    ///
    /// # Errors
    /// The reason, which is a property of the model, its device or its hooks.
    pub fn check_drafts(&self) -> Result<(), GenerateError> {
        check_drafts(&self.engine, &self.hooks)
    }

    /// A session: one sequence with its own state. Sessions share the model without a lock.
    ///
    /// # Errors
    /// The state cannot be allocated.
    pub fn session(&self) -> Result<Session, GenerateError> {
        let scheduler = Scheduler::for_one(Arc::clone(&self.engine), self.hooks.clone())?;
        let scheduler = scheduler.with_disk_cache(self.disk.clone())?;
        Session::new(scheduler, self.tokenizer.as_ref().ok().cloned())
    }

    /// A queue, whose requests share steps and one pool of state.
    ///
    /// # Errors
    /// The state cannot be allocated.
    pub fn queue(&self, options: SchedulerOptions) -> Result<Queue, GenerateError> {
        let scheduler = Scheduler::new(Arc::clone(&self.engine), self.hooks.clone(), options)?;
        let scheduler = scheduler.with_disk_cache(self.disk.clone())?;
        Ok(Queue::new(scheduler, self.tokenizer.as_ref().ok().cloned()))
    }

    /// An empty conversation.
    ///
    /// # Errors
    /// The file has no chat format, or the state cannot be allocated.
    pub fn chat(&self) -> Result<ChatSession, GenerateError> {
        let format = Arc::clone(self.chat_format()?);
        Ok(ChatSession::new(self.session()?, format))
    }
}

impl Hookable for TextPipeline {
    fn add_lifecycle(&mut self, lifecycle: Arc<dyn PipelineLifecycle>) {
        self.hooks.lifecycles.push(lifecycle);
    }
}

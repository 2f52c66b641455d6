//! [`ServedModel`]: a model with its names, before the server starts; [`EngineModel`]: with its thread.

use crate::fault::ApiFault;
use crate::worker::{EngineWorker, MakeQueue, WorkerLimits, WorkerThread};
use menagerie::engine::{
    ChatCapable, EmbeddingOptions, EmbeddingPipeline, Hookable, Metrics, RenderOptions, Request,
    SchedulerOptions, TextPipeline, Tokenizing, Truncation,
};
use menagerie::open::LoadedModel;
use menagerie_openai::{BatchRequests, ResponseFormats};
use std::sync::Arc;

/// How a model answers.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TextService {
    /// Values of fields that a request leaves out.
    pub defaults: Request,
    /// Variables of the chat template.
    pub render: RenderOptions,
    /// The sizes of its queue.
    pub scheduler: SchedulerOptions,
}

impl TextService {
    /// The model's defaults for everything, and a queue of this size.
    pub fn new(defaults: Request, scheduler: SchedulerOptions) -> Self {
        Self { defaults, render: RenderOptions::default(), scheduler }
    }

    /// Sets the variables of the chat template.
    #[must_use]
    pub fn with_render(self, render: RenderOptions) -> Self {
        Self { render, ..self }
    }
}

/// How a model makes vectors and scores.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct VectorService {
    /// Pooling and normalization.
    pub options: EmbeddingOptions,
    /// Whether texts that do not fit are cut where the request does not say it.
    pub truncation: Truncation,
    /// Why there are scores but no vectors.
    pub no_vectors: Option<String>,
}

impl VectorService {
    /// Vectors with these options; texts that are too long are refused.
    pub fn new(options: EmbeddingOptions) -> Self {
        Self { options, truncation: Truncation::Refuse, no_vectors: None }
    }

    /// Sets whether texts that do not fit are cut.
    #[must_use]
    pub fn with_truncation(self, truncation: Truncation) -> Self {
        Self { truncation, ..self }
    }

    /// Sets the reason why there are no vectors.
    #[must_use]
    pub fn with_no_vectors(self, reason: Option<String>) -> Self {
        Self { no_vectors: reason, ..self }
    }
}

/// A model that is served under its names.
pub struct ServedModel {
    /// The first one is its id.
    pub(crate) names: Vec<String>,
    pub(crate) text: Result<(TextPipeline, TextService), String>,
    pub(crate) vectors: Result<(LoadedModel<EmbeddingPipeline>, VectorService), String>,
    metrics: Arc<Metrics>,
}

impl ServedModel {
    /// A model with this id, which can do nothing yet.
    pub fn new(id: impl Into<String>) -> Self {
        let reason = "the model does not have it".to_owned();
        Self {
            names: vec![id.into()],
            text: Err(reason.clone()),
            vectors: Err(reason),
            metrics: Arc::default(),
        }
    }

    /// Adds names.
    #[must_use]
    pub fn with_names(mut self, names: impl IntoIterator<Item = String>) -> Self {
        for name in names {
            if !self.names.contains(&name) {
                self.names.push(name);
            }
        }
        self
    }

    /// Sets the model that answers, or why there is none.
    #[must_use]
    pub fn with_text(mut self, text: Result<(TextPipeline, TextService), String>) -> Self {
        self.text = text.map(|(mut pipeline, service)| {
            pipeline.add_lifecycle(Arc::clone(&self.metrics) as _);
            (pipeline, service)
        });
        self
    }

    /// Sets the model that makes vectors or scores, or why there is none.
    #[must_use]
    pub fn with_vectors(
        mut self,
        vectors: Result<(LoadedModel<EmbeddingPipeline>, VectorService), String>,
    ) -> Self {
        self.vectors = vectors.map(|(mut pipeline, service)| {
            pipeline.add_lifecycle(Arc::clone(&self.metrics) as _);
            (pipeline, service)
        });
        self
    }

    /// Starts its thread.
    pub(crate) fn start(self, waiting: usize) -> Result<(EngineModel, WorkerThread), String> {
        let Self { names, text, vectors, metrics } = self;
        let scheduler =
            text.as_ref().map_or_else(|_| SchedulerOptions::default(), |(_, text)| text.scheduler);
        let limits =
            WorkerLimits { parallel: scheduler.sequences, queue: waiting, step_time: scheduler.step_time };
        let queue = text.as_ref().ok().map(|(pipeline, service)| {
            let (pipeline, scheduler) = (pipeline.clone(), service.scheduler);
            Box::new(move || pipeline.queue(scheduler)) as MakeQueue
        });
        let vector_queue = vectors.as_ref().ok().map(|(pipeline, _)| pipeline.queue());
        let id = names.first().cloned().unwrap_or_default();
        let (worker, thread) = EngineWorker::start(&id, queue, vector_queue, limits)
            .map_err(|reason| format!("model {id}: {reason}"))?;
        let text = text.map(|(pipeline, service)| EngineText {
            formats: Arc::new(ResponseFormats::new(pipeline.tokenizer().ok())),
            pipeline,
            service,
        });
        Ok((EngineModel { id, names, text, vectors, metrics, worker }, thread))
    }
}

/// What a model needs to answer.
pub(crate) struct EngineText {
    pub(crate) pipeline: TextPipeline,
    pub(crate) service: TextService,
    pub(crate) formats: Arc<ResponseFormats>,
}

/// A model with its thread.
pub(crate) struct EngineModel {
    pub(crate) id: String,
    pub(crate) names: Vec<String>,
    text: Result<EngineText, String>,
    vectors: Result<(LoadedModel<EmbeddingPipeline>, VectorService), String>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) worker: EngineWorker,
}

impl EngineModel {
    /// What it needs to answer.
    pub(crate) fn text(&self) -> Result<&EngineText, ApiFault> {
        self.text.as_ref().map_err(|reason| self.cannot("generate text", reason))
    }

    /// What it needs for vectors.
    pub(crate) fn vectors(&self) -> Result<(&EmbeddingPipeline, &VectorService), ApiFault> {
        let (pipeline, service) = self.scores()?;
        match &service.no_vectors {
            Some(reason) => Err(self.cannot("make vectors", reason)),
            None => Ok((pipeline, service)),
        }
    }

    /// What it needs for scores.
    pub(crate) fn scores(&self) -> Result<(&EmbeddingPipeline, &VectorService), ApiFault> {
        match &self.vectors {
            Ok((pipeline, service)) => Ok((pipeline, service)),
            Err(reason) => Err(self.cannot("make vectors or scores", reason)),
        }
    }

    /// Its tokenizer.
    pub(crate) fn tokenizer(&self) -> Result<Arc<dyn Tokenizing>, ApiFault> {
        let tokenizer = match (&self.text, &self.vectors) {
            (Ok(text), _) => text.pipeline.tokenizer(),
            (_, Ok((pipeline, _))) => pipeline.tokenizer(),
            (Err(reason), _) => return Err(self.cannot("read text", reason)),
        };
        tokenizer.cloned().map_err(|missing| ApiFault::new(400, missing).with_param("model"))
    }

    /// The most tokens of a sequence.
    pub(crate) fn context(&self) -> usize {
        match (&self.text, &self.vectors) {
            (Ok(text), _) => text.pipeline.context(),
            (_, Ok((pipeline, _))) => pipeline.engine().context,
            _ => 0,
        }
    }

    fn cannot(&self, what: &str, reason: &str) -> ApiFault {
        let message = format!("the model {} cannot {what}: {reason}", self.id);
        ApiFault::new(400, message).with_param("model").with_code("unsupported_by_model")
    }
}

impl EngineText {
    /// The reader of bodies.
    pub(crate) fn requests(&self) -> BatchRequests<'_> {
        BatchRequests {
            pipeline: &self.pipeline,
            format: self.pipeline.chat_format().ok(),
            defaults: self.service.defaults.clone(),
            render: self.service.render.clone(),
            answers: 1,
            formats: Arc::clone(&self.formats),
        }
    }

    /// The chat template.
    pub(crate) fn chat_format(&self) -> Result<&Arc<dyn ChatCapable>, ApiFault> {
        self.pipeline.chat_format().map_err(|missing| ApiFault::new(400, missing).with_param("model"))
    }
}

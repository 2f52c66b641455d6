//! [`EngineModel`]: a model with its thread, and how it answers.

use crate::fault::ApiFault;
use crate::lora_table::LoraTable;
use crate::model_card::ModelCard;
use crate::worker::EngineWorker;
use menagerie::engine::{
    AdapterChoice, ChatCapable, EmbeddingOptions, EmbeddingPipeline, RenderOptions, Request,
    SchedulerOptions, TextPipeline, Tokenizing, Truncation,
};
use menagerie::model::AdapterSet;
use menagerie::open::{LoadedModel, ResolvedFile};
use menagerie_openai::{LineFault, RequestReader, ResponseFormats};
use serde_json::{Map, Value};
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

/// What a model needs to answer.
#[derive(Clone)]
pub(crate) struct EngineText {
    pub(crate) pipeline: TextPipeline,
    pub(crate) service: TextService,
    pub(crate) formats: Arc<ResponseFormats>,
    pub(crate) adapters: Arc<LoraTable>,
}

/// What a model needs for vectors and scores.
type EngineVectors = (LoadedModel<EmbeddingPipeline>, VectorService);

/// A model with its thread.
pub(crate) struct EngineModel {
    pub(crate) id: String,
    text: Result<EngineText, String>,
    vectors: Result<EngineVectors, String>,
    /// The file, if it is known.
    pub(crate) file: Option<ResolvedFile>,
    pub(crate) card: Option<ModelCard>,
    /// What its answers depend on.
    pub(crate) made: Map<String, Value>,
    pub(crate) worker: Arc<EngineWorker>,
}

impl EngineModel {
    /// A model that answers and makes vectors, or does not; with its file, what this says, and what its answers depend on.
    pub(crate) fn new(
        id: String,
        (text, vectors): (Result<EngineText, String>, Result<EngineVectors, String>),
        worker: EngineWorker,
        (file, card, made): (Option<ResolvedFile>, Option<ModelCard>, Map<String, Value>),
    ) -> Self {
        Self { id, text, vectors, file, card, made, worker: Arc::new(worker) }
    }

    /// The same model on the same thread, whose requests have an adapter.
    pub(crate) fn adapted(&self, name: &str, set: Arc<AdapterSet>, made_of: &Value) -> Self {
        let text = self.text.clone().map(|mut text| {
            text.service.defaults = text.service.defaults.with_adapters(AdapterChoice::Set(set));
            text
        });
        let vectors = Err("adapters are supported for text generation only, not for embeddings".to_owned());
        let mut made = self.made.clone();
        made.insert("request_adapter".to_owned(), made_of.clone());
        let (file, card, worker) = (self.file.clone(), self.card.clone(), Arc::clone(&self.worker));
        Self { id: format!("{}:{name}", self.id), text, vectors, file, card, made, worker }
    }

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

    /// What it can do.
    pub(crate) fn abilities(&self) -> Vec<&'static str> {
        let text = self.text().ok();
        let has_classifier =
            |(pipeline, _): (&EmbeddingPipeline, _)| pipeline.engine().model.classifier.is_some();
        let abilities = [
            ("completions", text.is_some()),
            ("chat", text.is_some_and(|text| text.chat_format().is_ok())),
            ("embeddings", self.vectors().is_ok()),
            ("rerank", self.scores().is_ok_and(has_classifier)),
        ];
        abilities.iter().filter(|(_, has)| *has).map(|(name, _)| *name).collect()
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
    pub(crate) fn requests(&self) -> RequestReader<'_> {
        RequestReader {
            pipeline: &self.pipeline,
            format: self.pipeline.chat_format().ok(),
            defaults: self.service.defaults.clone(),
            render: self.service.render.clone(),
            answers: 1,
            formats: Arc::clone(&self.formats),
        }
    }

    /// Removes the field `lora` of a body; returns the adapters that it chooses.
    pub(crate) fn take_lora(
        &self,
        fields: &mut Map<String, Value>,
    ) -> Result<Option<AdapterChoice>, LineFault> {
        let backend = &*self.pipeline.engine().compute.backend;
        self.adapters.take(fields, &self.service.defaults.adapters, backend)
    }

    /// The chat template.
    pub(crate) fn chat_format(&self) -> Result<&Arc<dyn ChatCapable>, ApiFault> {
        self.pipeline.chat_format().map_err(|missing| ApiFault::new(400, missing).with_param("model"))
    }
}

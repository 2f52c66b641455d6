//! [`ServedModel`]: a model with its names, before the server starts it.

use crate::lora_table::LoraTable;
use crate::model::{EngineModel, EngineText, TextService, VectorService};
use crate::model_card::ModelCard;
use crate::running_model::RunningModel;
use crate::worker::{EngineWorker, MakeQueue, WorkerLimits};
use menagerie::engine::{EmbeddingPipeline, Hookable, Metrics, SchedulerOptions, TextPipeline};
use menagerie::model::AdapterSet;
use menagerie::open::{LoadedModel, ResolvedFile};
use menagerie_openai::ResponseFormats;
use serde_json::{Map, Value};
use std::sync::Arc;
use std::time::Instant;

/// The key of what depends on adapters ([`ServedModel::with_made`]).
const ADAPTERS: &str = "request_adapters";

/// A model that is served under its names.
pub struct ServedModel {
    /// The first one is its id.
    pub(crate) names: Vec<String>,
    pub(crate) text: Result<(TextPipeline, TextService), String>,
    pub(crate) vectors: Result<(LoadedModel<EmbeddingPipeline>, VectorService), String>,
    /// Adapters of requests, by name.
    pub(crate) adapters: Vec<(String, Arc<AdapterSet>)>,
    pub(crate) bytes: u64,
    stamp: Option<u64>,
    file: Option<ResolvedFile>,
    card: Option<ModelCard>,
    /// What its answers depend on.
    made: Map<String, Value>,
}

impl ServedModel {
    /// A model with this id, which can do nothing yet.
    pub fn new(id: impl Into<String>) -> Self {
        let reason = "the model does not have it".to_owned();
        Self {
            names: vec![id.into()],
            text: Err(reason.clone()),
            vectors: Err(reason),
            adapters: Vec::new(),
            bytes: 0,
            stamp: None,
            file: None,
            card: None,
            made: Map::new(),
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

    /// Sets what its file says.
    #[must_use]
    pub fn with_card(self, card: ModelCard) -> Self {
        Self { card: Some(card), ..self }
    }

    /// Sets the file of the model, whose layers and tensors the page shows, with what it says.
    #[must_use]
    pub fn with_file(self, file: ResolvedFile) -> Self {
        let card = ModelCard::new(file.config().architecture.clone(), file.file.bytes());
        Self { file: Some(file), ..self.with_card(card) }
    }

    /// Sets what its answers depend on besides requests; `request_adapters` is an object with what those of each adapter
    /// depend on. A batch is not continued if this has changed.
    #[must_use]
    pub fn with_made(self, made: Map<String, Value>) -> Self {
        Self { made, ..self }
    }

    /// Sets the model that answers, or why there is none.
    #[must_use]
    pub fn with_text(self, text: Result<(TextPipeline, TextService), String>) -> Self {
        Self { text, ..self }
    }

    /// Sets the model that makes vectors or scores, or why there is none.
    #[must_use]
    pub fn with_vectors(
        self,
        vectors: Result<(LoadedModel<EmbeddingPipeline>, VectorService), String>,
    ) -> Self {
        Self { vectors, ..self }
    }

    /// Sets adapters with their names: a request for `id:name` is answered with the adapter of that name.
    #[must_use]
    pub fn with_adapters(self, adapters: Vec<(String, Arc<AdapterSet>)>) -> Self {
        Self { adapters, ..self }
    }

    /// Sets the memory that it needs, in bytes.
    #[must_use]
    pub fn with_bytes(self, bytes: u64) -> Self {
        Self { bytes, ..self }
    }

    /// Sets what identifies its files ([`crate::ModelLibrary::stamp`]).
    #[must_use]
    pub fn with_stamp(self, stamp: Option<u64>) -> Self {
        Self { stamp, ..self }
    }

    /// Starts its thread. Its requests are counted in `metrics`.
    pub(crate) fn start(self, waiting: usize, metrics: &Arc<Metrics>) -> Result<RunningModel, String> {
        let Self { names, mut text, mut vectors, adapters, bytes, stamp, file, card, mut made } = self;
        if let Ok((pipeline, _)) = &mut text {
            pipeline.add_lifecycle(Arc::clone(metrics) as _);
        }
        if let Ok((pipeline, _)) = &mut vectors {
            pipeline.add_lifecycle(Arc::clone(metrics) as _);
        }
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
            adapters: Arc::new(LoraTable::new(pipeline.engine().adapters.as_deref(), &adapters)),
            pipeline,
            service,
        });
        let made_of_adapters = made.remove(ADAPTERS).unwrap_or_default();
        let base = EngineModel::new(id, (text, vectors), worker, (file, card, made));
        let base = Arc::new(base);
        let adapted = adapters.into_iter().map(|(name, set)| {
            let model = Arc::new(base.adapted(&name, set, &made_of_adapters[&name]));
            (name, model)
        });
        let adapted = adapted.collect();
        Ok(RunningModel { base, adapted, thread, bytes, stamp, used: Instant::now() })
    }
}

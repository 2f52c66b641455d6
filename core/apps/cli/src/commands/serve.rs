//! `serve MODEL..`: models over HTTP.

use crate::arguments::cache::CacheArguments;
use crate::arguments::draft::{DraftArguments, DraftOpening};
use crate::arguments::model::ModelArguments;
use crate::arguments::name_or_path::NameOrPath;
use crate::arguments::opening::ModelOpening;
use crate::arguments::pooling::PoolingArgument;
use crate::arguments::queue_size::QueueArguments;
use crate::arguments::sampling::SamplingArguments;
use crate::arguments::server::ServerArguments;
use crate::arguments::template::TemplateArguments;
use crate::arguments::truncation::TruncationArgument;
use crate::batch::models::{no_text, no_vectors};
use crate::commands::{CommandContext, Runnable};
use crate::failure::Failure;
use crate::{interrupt, output};
use clap::Args;
use menagerie::engine::{EmbeddingOptions, EmbeddingPipeline, Normalization, TextPipeline};
use menagerie::model::{Backend, Pooling};
use menagerie::open::LoadedModel;
use menagerie::registry::Environment;
use menagerie_server::{ServedModel, Server, ServerSocket, TextService, VectorService};
use std::sync::Arc;

/// Answer requests over HTTP, as OpenAI's interface does
///
/// Routes: /v1/chat/completions, /v1/completions, /v1/embeddings, /v1/rerank, /v1/models, /tokenize, /detokenize,
/// /apply-template, /health, /livez, /readyz and /metrics. The options of this command are the defaults for fields that a
/// request leaves out; a request with an unsupported field is refused with its name. Requests of all clients share steps,
/// and each gets the answer that it would get alone.
///
/// The address is printed when the models are loaded. SIGTERM and Ctrl-C end the server when its running requests have
/// ended, at the latest after --drain seconds; a second Ctrl-C ends it at once. menagerie guide server describes every
/// route and field.
#[derive(Args)]
pub(crate) struct ServeCommand {
    #[command(flatten)]
    model: ModelArguments,
    /// More models, with the same options
    #[arg(value_name = "MODEL")]
    more: Vec<NameOrPath>,
    /// Name of a model for requests (repeatable: one for each model, in their order) [default: its file name without the
    /// ending, or the name that was given]
    #[arg(long, value_name = "NAME", help_heading = "Server")]
    alias: Vec<String>,
    #[command(flatten)]
    server: ServerArguments,
    #[command(flatten)]
    queue: QueueArguments,
    /// Pooling of token vectors into one vector per text, for /v1/embeddings [default: from the model file]
    #[arg(long, hide_short_help = true, value_enum, value_name = "HOW", help_heading = "Server")]
    pooling: Option<PoolingArgument>,
    #[command(flatten)]
    truncation: TruncationArgument,
    #[command(flatten)]
    cache: CacheArguments,
    #[command(flatten)]
    template: TemplateArguments,
    #[command(flatten)]
    draft: DraftArguments,
    #[command(flatten)]
    sampling: SamplingArguments,
}

/// The pipelines of a model, or why they are missing.
struct ServedPipelines {
    text: Result<LoadedModel<TextPipeline>, String>,
    vectors: Result<LoadedModel<EmbeddingPipeline>, String>,
    /// The device of both.
    backend: Arc<dyn Backend>,
}

impl Runnable for ServeCommand {
    fn run(self, context: &CommandContext) -> Result<(), Failure> {
        let installed = &context.environment;
        let options = self.server.options()?;
        self.sampling.check(installed)?;
        let mut models = vec![self.model.clone()];
        models.extend(self.more.iter().map(|model| self.model.for_model(model.clone())));
        if self.alias.len() > models.len() {
            return Err(Failure::Usage(format!(
                "--alias is given {} times for {}",
                self.alias.len(),
                output::counted(models.len(), "model")
            )));
        }
        // An address that cannot be used is refused before the models are loaded.
        let socket = ServerSocket::bind(&self.server.listen, &options)?;
        let (mut served, mut backend, mut names) = (Vec::new(), None, Vec::new());
        let (mut caches, mut no_text) = (Vec::new(), Ok(()));
        for (number, model) in models.iter().enumerate() {
            let id = self.alias.get(number).cloned().unwrap_or_else(|| own_name(&model.model));
            let mut pipelines = self.open(model, backend.clone(), installed)?;
            // All models compute on one device, whose threads take turns.
            backend = backend.or_else(|| Some(Arc::clone(&pipelines.backend)));
            let others = [model.model.to_string(), own_name(&model.model)];
            let others =
                others.into_iter().filter(|name| !names.contains(name) && !self.alias.contains(name));
            let others: Vec<String> = others.collect();
            names.extend(others.iter().cloned().chain([id.clone()]));
            match &mut pipelines.text {
                Ok(pipeline) => caches.push(self.cache.install(pipeline, installed)?),
                Err(reason) => no_text = Err(reason.clone()),
            }
            served.push(self.served(id, pipelines, installed)?.with_names(others));
        }
        if caches.is_empty() {
            self.cache.check_text(&no_text)?;
        }
        let server = Server::start(socket, served, options)?;
        output::line(&format!("listening on http://{}", server.address()))?;
        // After a signal the running requests have time to end.
        let orderly = interrupt::orderly()?;
        let stop = interrupt::flag()?;
        let ended = server.run(&stop);
        for cache in &caches {
            cache.finish();
        }
        drop(orderly);
        Ok(ended?)
    }
}

impl ServeCommand {
    /// Opens a model for text, for vectors, or for both.
    fn open(
        &self,
        model: &ModelArguments,
        backend: Option<Arc<dyn Backend>>,
        installed: &Environment,
    ) -> Result<ServedPipelines, Failure> {
        let opening = model.opening(installed)?.with_template(&self.template)?.with_draft(&self.draft);
        let opening = match backend {
            Some(backend) => opening.with_backend(backend),
            None => opening,
        };
        match self.has_vectors(&opening)? {
            Err(reason) => {
                let text = opening.open_text()?;
                let backend = Arc::clone(&text.compute().backend);
                Ok(ServedPipelines { text: Ok(text), vectors: Err(reason), backend })
            }
            Ok(()) => {
                let vectors = opening.open_embedding()?;
                let text = match no_text(&vectors) {
                    Some(reason) => Err(reason),
                    None => Ok(opening.clone().with_vectors(&vectors).open_text()?),
                };
                let backend = Arc::clone(&vectors.engine().compute.backend);
                Ok(ServedPipelines { text, vectors: Ok(vectors), backend })
            }
        }
    }

    /// Whether a model makes vectors or scores, or why it does not.
    fn has_vectors(&self, opening: &ModelOpening) -> Result<Result<(), String>, Failure> {
        let stated = opening.stated_output()?;
        if stated.pooling == Pooling::None && stated.classifier.is_none() && self.pooling.is_none() {
            let reason = "the file does not state the pooling of token vectors; set it with --pooling mean, cls or last";
            return Ok(Err(reason.to_owned()));
        }
        Ok(opening.refuse_adapters().map_err(|failure| failure.said()))
    }

    fn served(
        &self,
        id: String,
        pipelines: ServedPipelines,
        installed: &Environment,
    ) -> Result<ServedModel, Failure> {
        let ServedPipelines { text, vectors, backend: _ } = pipelines;
        let text = match text {
            Ok(pipeline) => {
                // The server cancels the requests of clients that have left.
                let cancel = Arc::default();
                let defaults = self.sampling.request(pipeline.sampling_defaults(), installed, cancel)?;
                let opening = DraftOpening { model: &self.model, queue: Some(&self.queue), installed };
                let defaults = defaults.with_draft(self.draft.source(&pipeline, &opening)?);
                let scheduler = self.queue.scheduler(&pipeline).with_step_time(self.server.step_time());
                let service =
                    TextService::new(defaults, scheduler).with_render(self.template.render_options()?);
                Ok(((*pipeline).clone(), service))
            }
            Err(reason) => Err(reason),
        };
        let vectors = vectors.map(|pipeline| {
            let options = EmbeddingOptions::default()
                .with_pooling(self.pooling.map(PoolingArgument::pooling))
                .with_normalization(Normalization::Euclidean);
            let service = VectorService::new(options)
                .with_truncation(self.truncation.truncation())
                .with_no_vectors(no_vectors(&pipeline, self.pooling));
            (pipeline, service)
        });
        Ok(ServedModel::new(id).with_text(text).with_vectors(vectors))
    }
}

/// The name of a model for requests: that of its file without the ending, or the name as it was given.
fn own_name(model: &NameOrPath) -> String {
    let stem = model.path().file_stem().filter(|_| model.path().exists());
    stem.map_or_else(|| model.to_string(), |stem| stem.to_string_lossy().into_owned())
}

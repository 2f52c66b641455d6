//! `serve [MODEL..]`: models over HTTP.

mod catalog;
mod library;
mod model_files;
#[cfg(feature = "hub")]
mod puller;
mod spec_changes;

use crate::arguments::cache::CacheArguments;
#[cfg(feature = "cluster")]
use crate::arguments::cluster::ClusterArguments;
use crate::arguments::draft::DraftArguments;
use crate::arguments::library::LibraryArguments;
use crate::arguments::model::ModelArguments;
use crate::arguments::name_or_path::NameOrPath;
#[cfg(feature = "cluster")]
use crate::arguments::plugins::plugin_names;
use crate::arguments::pooling::PoolingArgument;
use crate::arguments::queue_size::QueueArguments;
use crate::arguments::sampling::SamplingArguments;
use crate::arguments::server::ServerArguments;
use crate::arguments::template::TemplateArguments;
use crate::arguments::truncation::TruncationArgument;
use crate::commands::{CommandContext, Runnable};
use crate::failure::Failure;
use crate::{interrupt, output};
use catalog::CatalogEntry;
use clap::Args;
use library::ServeLibrary;
use menagerie::open::available_memory;
use menagerie::registry::Environment;
use menagerie_server::{Server, ServerSocket};
use std::sync::Arc;

/// All of these parts of the free memory but one may be used.
const FREE_PARTS: u64 = 10;

/// Answer requests over HTTP, as OpenAI's interface does
///
/// Routes: /v1/chat/completions, /v1/completions, /v1/responses, /v1/embeddings, /v1/rerank, /v1/files, /v1/batches,
/// /v1/models, /tokenize, /detokenize, /apply-template, /admin/reload, /health, /livez, /readyz and /metrics; Anthropic's
/// /v1/messages, ollama's /api/chat and others, and /infill, /props, /slots and /lora-adapters of llama-server. The options of this command
/// are the defaults for fields that a request leaves out; a request with an unsupported field is refused with its name.
/// Requests of all clients share steps, and each gets the answer that it would get alone.
///
/// Models of the command line are opened at the start; those of --models-dir and --installed when a request names them. All
/// share the memory of --memory, and idle ones are dropped for others. SIGHUP reads keys, certificates, specs, plugins and
/// the list of models again.
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
    #[arg(long, hide_short_help = true, value_name = "NAME", help_heading = "Server")]
    alias: Vec<String>,
    #[command(flatten)]
    server: ServerArguments,
    #[command(flatten)]
    library: LibraryArguments,
    #[cfg(feature = "cluster")]
    #[command(flatten)]
    cluster: ClusterArguments,
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

impl Runnable for ServeCommand {
    fn run(self, context: &CommandContext) -> Result<(), Failure> {
        let installed = &context.environment;
        #[cfg(feature = "cluster")]
        let stages = self.cluster.stages(plugin_names(installed), self.server.is_insecure());
        #[cfg(feature = "cluster")]
        let this = Self { model: self.model.in_stages(stages), ..self };
        #[cfg(not(feature = "cluster"))]
        let this = self;
        this.serve(context, installed)
    }
}

impl ServeCommand {
    fn serve(self, context: &CommandContext, installed: &Environment) -> Result<(), Failure> {
        let mut options = self.server.options()?;
        self.sampling.check(installed)?;
        let named = self.named()?;
        // An address that cannot be used is refused before the models are loaded.
        let socket = ServerSocket::bind(&self.server.listen, &options)?;
        let memory = self.memory();
        (options.memory, options.idle, options.pins) =
            (memory, self.library.idle(), self.library.pin.clone());
        #[cfg(feature = "hub")]
        {
            options.puller = self.library.allow_pull.then(|| puller::HubPuller::shared(&self.model.specs));
        }
        #[cfg(feature = "opentelemetry")]
        let spans = self.server.spans(&mut options)?;
        let scheme = self.server.scheme();
        let surroundings = (installed.clone(), context.plugins.clone());
        let library = Arc::new(ServeLibrary::new(self, named, surroundings, memory)?);
        let served = library.open_named()?;
        let server = Server::start_with(socket, served, Some(Arc::clone(&library) as _), options)?;
        // After a signal the running requests have time to end.
        let serving = interrupt::serving()?;
        let server = server.with_reload(interrupt::reload_flag());
        output::line(&format!("listening on {scheme}://{}", server.address()))?;
        let stop = interrupt::flag()?;
        let ended = server.run(&stop);
        library.finish_caches();
        #[cfg(feature = "opentelemetry")]
        if let Some(spans) = spans {
            spans.finish();
        }
        drop(serving);
        Ok(ended?)
    }

    /// The models of the command line with their names.
    fn named(&self) -> Result<Vec<CatalogEntry>, Failure> {
        let models: Vec<&NameOrPath> = std::iter::once(&self.model.model)
            .chain(&self.more)
            .filter(|model| !model.path().as_os_str().is_empty())
            .collect();
        if self.alias.len() > models.len() {
            return Err(Failure::Usage(format!(
                "--alias is given {} times for {}",
                self.alias.len(),
                output::counted(models.len(), "model")
            )));
        }
        if models.is_empty() && self.library.models_dir.is_none() && !self.library.installed {
            let reason = "there is no model to serve: name a MODEL, a folder of models (--models-dir), or give --installed";
            return Err(Failure::Usage(reason.to_owned()));
        }
        let (mut named, mut names) = (Vec::new(), Vec::new());
        for (number, model) in models.into_iter().enumerate() {
            let id = self.alias.get(number).cloned().unwrap_or_else(|| own_name(model));
            let others = [model.to_string(), own_name(model)].into_iter();
            let mut aliases: Vec<String> = Vec::new();
            for name in others.filter(|name| !names.contains(name) && !self.alias.contains(name)) {
                if name != id && !aliases.contains(&name) {
                    aliases.push(name);
                }
            }
            names.extend(aliases.iter().cloned().chain([id.clone()]));
            named.push(CatalogEntry { aliases, ..CatalogEntry::new(id, model.clone()) });
        }
        Ok(named)
    }

    /// The memory for all models together.
    fn memory(&self) -> Option<u64> {
        let usual = || available_memory().map(|free| free / FREE_PARTS * (FREE_PARTS - 1));
        self.library.memory.or_else(|| self.model.is_on_cpu().then(usual).flatten())
    }
}

/// The name of a model for requests: that of its file without the ending, or the name as it was given.
fn own_name(model: &NameOrPath) -> String {
    let stem = model.path().file_stem().filter(|_| model.path().exists());
    stem.map_or_else(|| model.to_string(), |stem| stem.to_string_lossy().into_owned())
}

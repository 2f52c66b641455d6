//! [`ServeLibrary`]: opens the models of `serve`.

use super::ServeCommand;
use super::catalog::{CatalogEntry, entries, known_files};
use super::model_files::{bytes_of, check_inside, files_of, read_through, stamp_of};
use super::spec_changes::{SpecStamps, depends_on, uses_plugin};
use crate::arguments::cache::OpenCache;
use crate::arguments::draft::DraftOpening;
use crate::arguments::opening::ModelOpening;
use crate::arguments::plugins::PluginArguments;
use crate::arguments::pooling::PoolingArgument;
use crate::arguments::queue_size::QueueArguments;
use crate::arguments::sampling::sampling_line;
use crate::batch::identity::{identity, vectors_identity};
use crate::batch::models::{no_text, no_vectors};
use crate::failure::Failure;
use crate::listing::plugin_parts::parts_of;
use menagerie::adapters::AdapterFile;
use menagerie::engine::{Cacheable, EmbeddingOptions, EmbeddingPipeline, Normalization, TextPipeline};
use menagerie::model::{AdapterSet, Backend, Pooling};
use menagerie::open::{LoadedModel, ResolvedFile};
use menagerie::registry::Environment;
use menagerie_server::{
    LibraryChange, LibraryError, LibraryModel, LoadMeter, ModelLibrary, ServedModel, TextService,
    VectorService,
};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The most of the memory for the states of one model, if there are several.
const STATE_SHARE: u64 = 4;

/// The models of a server, and what is needed to open them.
pub(super) struct ServeLibrary {
    command: ServeCommand,
    plugins: PluginArguments,
    /// The models of the command line.
    named: Vec<CatalogEntry>,
    /// Bytes for all models.
    memory: Option<u64>,
    state: Mutex<LibraryState>,
}

/// What changes while the server runs.
struct LibraryState {
    environment: Environment,
    /// Specs and plugins of the environment with its spec folders.
    stamps: SpecStamps,
    entries: Vec<CatalogEntry>,
    /// The device of all models.
    backend: Option<Arc<dyn Backend>>,
    opened: BTreeMap<String, OpenedModel>,
    caches: BTreeMap<String, OpenCache>,
    /// Why a model generates no text.
    no_text: Option<String>,
}

/// What a model was made of when it was opened last.
struct OpenedModel {
    files: Vec<PathBuf>,
    architecture: String,
    /// Names of components of plugins, among them the samplers of its requests.
    parts: BTreeSet<String>,
}

/// The pipelines of a model, or why they are missing.
struct ServedPipelines {
    text: Result<LoadedModel<TextPipeline>, String>,
    vectors: Result<LoadedModel<EmbeddingPipeline>, String>,
}

impl ServeLibrary {
    pub(super) fn new(
        command: ServeCommand,
        named: Vec<CatalogEntry>,
        (environment, plugins): (Environment, PluginArguments),
        memory: Option<u64>,
    ) -> Result<Self, Failure> {
        let entries = entries(&named, &command.library, (&command.model.specs, &environment))?;
        let (backend, opened, caches) = (None, BTreeMap::new(), BTreeMap::new());
        let stamps = SpecStamps::of(&command.model.specs.environment(&environment)?);
        let state = LibraryState { environment, stamps, entries, backend, opened, caches, no_text: None };
        let state = Mutex::new(state);
        Ok(Self { command, plugins, named, memory, state })
    }

    fn state(&self) -> MutexGuard<'_, LibraryState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens the models of the command line, whose files may be downloaded.
    pub(super) fn open_named(&self) -> Result<Vec<ServedModel>, Failure> {
        let mut models = Vec::new();
        let environment = self.state().environment.clone();
        self.command.draft.find(&self.command.model.specs, &environment)?;
        for CatalogEntry { id, .. } in &self.named {
            models.push(self.open_entry(id, None)?);
        }
        let state = self.state();
        if let (true, Some(reason)) = (state.caches.is_empty(), &state.no_text) {
            self.command.cache.check_text(&Err::<(), _>(reason.clone()))?;
        }
        drop(state);
        Ok(models)
    }

    /// Waits until all caches are written.
    pub(super) fn finish_caches(&self) {
        for cache in std::mem::take(&mut self.state().caches).into_values() {
            cache.finish();
        }
    }

    /// Opens a model; with a meter nothing is downloaded, and its files are read first.
    fn open_entry(&self, id: &str, meter: Option<&LoadMeter>) -> Result<ServedModel, Failure> {
        let (entry, environment, backend) = {
            let state = self.state();
            let entry = state.entries.iter().find(|entry| entry.id == id).cloned();
            (entry, state.environment.clone(), state.backend.clone())
        };
        let Some(entry) = entry else { return Err(Failure::about(id, "the model is not there any more")) };
        if let Some(root) = &entry.root {
            check_inside(root, entry.model.path())?;
        }
        let arguments = self.command.model.for_model(entry.model.clone());
        let opening = match meter {
            Some(_) => arguments.opening_here(&environment)?,
            None => arguments.opening(&environment)?,
        };
        let opening = opening.with_template(&self.command.template)?.with_draft(&self.command.draft);
        let opening = opening.with_memory_limit(self.memory);
        let opening = match backend {
            Some(backend) => opening.with_backend(backend),
            None => opening,
        };
        let files = all_files(&entry, &opening);
        if let Some(meter) = meter {
            read_through(&files, meter)?;
        }
        let stamp = stamp_of(&files);
        let mut pipelines = self.command.pipelines(&opening)?;
        self.keep_device(&pipelines);
        match &mut pipelines.text {
            Ok(text) => {
                let cache = self.command.cache.install(text, &environment)?;
                let before = self.state().caches.insert(id.to_owned(), cache);
                if let Some(before) = before {
                    before.finish();
                }
            }
            Err(reason) => self.state().no_text = Some(reason.clone()),
        }
        let architecture = pipelines.architecture().to_owned();
        let of_file = pipelines.file().map(parts_of).unwrap_or_default().into_iter().map(|part| part.name);
        let parts = of_file.chain(self.command.sampling.sampler_names()).collect();
        let model = self.served(&entry, pipelines, &environment)?;
        self.state().opened.insert(id.to_owned(), OpenedModel { files, architecture, parts });
        Ok(model.with_stamp(stamp))
    }

    /// All models compute on one device, whose threads take turns.
    fn keep_device(&self, pipelines: &ServedPipelines) {
        let backend = match pipelines {
            ServedPipelines { text: Ok(text), .. } => Some(&text.compute().backend),
            ServedPipelines { vectors: Ok(vectors), .. } => Some(&vectors.engine().compute.backend),
            _ => None,
        };
        let mut state = self.state();
        if state.backend.is_none() {
            state.backend = backend.map(Arc::clone);
        }
    }

    fn served(
        &self,
        entry: &CatalogEntry,
        pipelines: ServedPipelines,
        environment: &Environment,
    ) -> Result<ServedModel, Failure> {
        let command = &self.command;
        let mut model = ServedModel::new(entry.id.clone()).with_names(entry.aliases.clone());
        let mut made = match command.server.batch_dir {
            Some(_) => command.made(&pipelines, environment)?,
            None => Map::new(),
        };
        if let Some(file) = pipelines.file() {
            model = model.with_file(file.clone());
        }
        let ServedPipelines { text, vectors } = pipelines;
        let mut bytes = vectors.as_ref().map_or(0, |vectors| vectors.memory().total());
        let text = match text {
            Ok(pipeline) => {
                let adapted = adapters(entry, &pipeline)?;
                if command.server.batch_dir.is_some() {
                    made.insert("request_adapters".to_owned(), adapted.made(&pipeline)?.into());
                }
                model = model.with_adapters(adapted.sets);
                let (service, of_text) = self.text_service(&pipeline, environment)?;
                bytes = of_text.saturating_add(adapted.bytes);
                Ok(((*pipeline).clone(), service))
            }
            Err(reason) => match entry.adapters.first() {
                Some((name, _)) => {
                    let reason = format!("the adapter {name} cannot be used: {reason}");
                    return Err(Failure::about(&entry.model, reason));
                }
                None => Err(reason),
            },
        };
        let vectors = vectors.map(|pipeline| {
            let options = EmbeddingOptions::default()
                .with_pooling(command.pooling.map(PoolingArgument::pooling))
                .with_normalization(Normalization::Euclidean);
            let service = VectorService::new(options)
                .with_truncation(command.truncation.truncation())
                .with_no_vectors(no_vectors(&pipeline, command.pooling));
            (pipeline, service)
        });
        Ok(model.with_made(made).with_text(text).with_vectors(vectors).with_bytes(bytes))
    }

    /// How a model answers, and the bytes of memory that it needs for that.
    fn text_service(
        &self,
        pipeline: &LoadedModel<TextPipeline>,
        environment: &Environment,
    ) -> Result<(TextService, u64), Failure> {
        let command = &self.command;
        // The server cancels the requests of clients that have left.
        let cancel = Arc::default();
        let defaults = command.sampling.request(pipeline.sampling_defaults(), environment, cancel)?;
        let opening =
            DraftOpening { model: &command.model, queue: Some(&command.queue), installed: environment };
        let (draft, of_draft) = command.draft.sized_source(pipeline, &opening)?.unzip();
        let defaults = defaults.with_draft(draft);
        let scheduler = command.queue.scheduler_within(pipeline, self.most_state());
        let scheduler = scheduler.with_step_time(command.server.step_time());
        let memory = pipeline.memory();
        let states = QueueArguments::state_bytes(pipeline, &scheduler);
        let bytes = memory.weights + memory.adapters + memory.working + states;
        let bytes = bytes.saturating_add(scheduler.swap_bytes as u64 + of_draft.unwrap_or(0));
        let service = TextService::new(defaults, scheduler).with_render(command.template.render_options()?);
        Ok((service, bytes))
    }

    /// The most bytes of the states of a model: half of the memory of all, or less if there are several models.
    fn most_state(&self) -> Option<u64> {
        let several = self.state().entries.len() > 1;
        let parts = 2 * self.named.len().max(1) as u64;
        let parts = if several { parts.max(STATE_SHARE) } else { parts };
        self.memory.map(|memory| memory / parts)
    }
}

/// The files of a model: its own, those of its recipe, and its adapters.
fn all_files(entry: &CatalogEntry, opening: &ModelOpening) -> Vec<PathBuf> {
    let mut files = files_of(opening.path());
    if entry.model.path().is_file() && entry.model.path() != opening.path() {
        files.push(entry.model.path().to_owned());
    }
    let of_recipe = opening.source().ingredients.iter().flat_map(|ingredients| &ingredients.adapters);
    let of_requests = entry.adapters.iter().map(|(_, path)| path);
    files.extend(of_recipe.map(|adapter| &adapter.path).chain(of_requests).flat_map(|path| files_of(path)));
    files
}

/// The adapters of requests.
#[derive(Default)]
struct RequestAdapters {
    sets: Vec<(String, Arc<AdapterSet>)>,
    bytes: u64,
}

impl RequestAdapters {
    /// What the answers of each adapter depend on besides requests and the model.
    fn made(&self, pipeline: &LoadedModel<TextPipeline>) -> Result<Map<String, Value>, Failure> {
        let (identifier, mut made) = (pipeline.adapter_identifier(), Map::new());
        for (name, set) in &self.sets {
            made.insert(name.clone(), json!(identifier.identities(set)?));
        }
        Ok(made)
    }
}

fn adapters(entry: &CatalogEntry, pipeline: &LoadedModel<TextPipeline>) -> Result<RequestAdapters, Failure> {
    let mut found = RequestAdapters::default();
    for (name, path) in &entry.adapters {
        if let Some(root) = &entry.root {
            // One that the command line names may be anywhere.
            if path.starts_with(root) {
                check_inside(root, path)?;
            }
        }
        found.bytes += AdapterFile::open(path)?.memory_bytes();
        pipeline.load_adapter(name, path)?;
        found.sets.push((name.clone(), pipeline.adapter_set(&[(name, 1.0)])?));
    }
    Ok(found)
}

impl ServedPipelines {
    /// The id of the spec.
    fn architecture(&self) -> &str {
        match (&self.text, &self.vectors) {
            (Ok(text), _) => text.architecture(),
            (_, Ok(vectors)) => vectors.architecture(),
            _ => "",
        }
    }

    /// The file of the model.
    fn file(&self) -> Option<&ResolvedFile> {
        match (&self.text, &self.vectors) {
            (Ok(text), _) => Some(text.resolved()),
            (_, Ok(vectors)) => Some(vectors.resolved()),
            _ => None,
        }
    }
}

impl ServeCommand {
    /// What answers depend on besides requests: a batch is not continued by other models or options.
    fn made(
        &self,
        pipelines: &ServedPipelines,
        environment: &Environment,
    ) -> Result<Map<String, Value>, Failure> {
        let mut made = Map::new();
        if let Ok(text) = &pipelines.text {
            let defaults = self.sampling.request(text.sampling_defaults(), environment, Arc::default())?;
            let ends = (defaults.min_tokens, defaults.max_tokens, &defaults.stop, &defaults.stop_tokens);
            let options = (ends, self.template.render_options()?.arguments);
            made = identity(text, environment)?;
            made.insert("sampling".to_owned(), sampling_line(&defaults.sampling).into());
            made.insert("options".to_owned(), json!(options));
        }
        if let Ok(vectors) = &pipelines.vectors {
            let own = vectors_identity(vectors, environment)?.into_iter();
            made.extend(own.map(|(name, value)| (format!("vectors: {name}"), value)));
            let pooling = self.pooling.map(PoolingArgument::pooling);
            made.insert("pooling".to_owned(), format!("{pooling:?}").to_lowercase().into());
        }
        Ok(made)
    }

    /// Opens a model for text, for vectors, or for both.
    fn pipelines(&self, opening: &ModelOpening) -> Result<ServedPipelines, Failure> {
        match self.has_vectors(opening)? {
            Err(reason) => Ok(ServedPipelines { text: Ok(opening.open_text()?), vectors: Err(reason) }),
            Ok(()) => {
                let vectors = opening.open_embedding()?;
                let text = match no_text(&vectors) {
                    Some(reason) => Err(reason),
                    None => Ok(opening.clone().with_vectors(&vectors).open_text()?),
                };
                Ok(ServedPipelines { text, vectors: Ok(vectors) })
            }
        }
    }

    /// Whether a model makes vectors or scores, or why it does not.
    fn has_vectors(&self, opening: &ModelOpening) -> Result<Result<(), String>, Failure> {
        if self.model.is_in_stages() {
            return Ok(
                Err("stages make no vectors and scores: serve the model without --cluster".to_owned()),
            );
        }
        let stated = opening.stated_output()?;
        if stated.pooling == Pooling::None && stated.classifier.is_none() && self.pooling.is_none() {
            let reason = "the file does not state the pooling of token vectors; set it with --pooling mean, cls or last";
            return Ok(Err(reason.to_owned()));
        }
        Ok(opening.refuse_adapters().map_err(|failure| failure.said()))
    }
}

impl ModelLibrary for ServeLibrary {
    fn models(&self) -> Result<Vec<LibraryModel>, LibraryError> {
        let environment = self.state().environment.clone();
        let specs = (&self.command.model.specs, &environment);
        let found = entries(&self.named, &self.command.library, specs).map_err(|failure| failure.said())?;
        let listed = found.iter().map(CatalogEntry::listed).collect();
        self.state().entries = found;
        Ok(listed)
    }

    fn stamp(&self, id: &str) -> Option<u64> {
        let files = self.state().opened.get(id).map(|opened| opened.files.clone());
        files.and_then(|files| stamp_of(&files))
    }

    fn bytes(&self, id: &str) -> u64 {
        let entry = self.state().entries.iter().find(|entry| entry.id == id).cloned();
        entry.map_or(0, |entry| bytes_of(&known_files(&entry)))
    }

    fn open(&self, id: &str, meter: &LoadMeter) -> Result<ServedModel, LibraryError> {
        self.open_entry(id, Some(meter)).map_err(|failure| failure.said().into())
    }

    fn environment(&self) -> Option<Environment> {
        let environment = self.state().environment.clone();
        // A folder that cannot be read is reported by the next reload.
        self.command.model.specs.environment(&environment).ok()
    }

    fn reload(&self) -> Result<LibraryChange, LibraryError> {
        let read = || -> Result<(Environment, Environment), Failure> {
            let environment = self.plugins.install_noting()?;
            let specs = self.command.model.specs.environment(&environment)?;
            Ok((environment, specs))
        };
        let (environment, whole) = read().map_err(|failure| failure.said())?;
        let stamps = SpecStamps::of(&whole);
        let mut state = self.state();
        let (specs, plugins) = state.stamps.differences(&stamps);
        let is_other = |(_, opened): &(&String, &OpenedModel)| {
            let both = [&state.environment, &environment];
            plugins.iter().any(|plugin| uses_plugin(both, plugin, &opened.parts))
                || depends_on(&whole, &opened.architecture, &specs)
        };
        let models = state.opened.iter().filter(is_other).map(|(id, _)| id.clone()).collect();
        (state.environment, state.stamps) = (environment, stamps);
        let change = LibraryChange::new(specs.into_iter().collect(), plugins.into_iter().collect());
        Ok(change.with_models(models))
    }
}

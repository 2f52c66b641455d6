//! [`load`]: from the files of a model to an assembled model and its text capabilities, for every kind of pipeline.
//!
//! The order is file, spec, weights, tokenizer; a thread builds the tokenizer while the weights are assembled.

mod notices;

pub(crate) use notices::notices;

use crate::adapters::MixtureRoles;
use crate::error::LoadError;
use crate::fitting::check_fits;
use crate::memory;
use crate::memory::MemoryEstimate;
use crate::mixture::{LoadedMixture, MixtureBase};
use crate::options::{AdapterOption, CompositionOptions, ContextOptions, LoadOptions, PlacementOptions};
use crate::quantization::{QuantizedTensors, quantized};
use crate::request::{LinearWrapping, LoadRequest};
use crate::resolved::{Assemblies, ResolvedFile};
use crate::stage_options::{StagePlace, StageProbe};
use crate::stages;
use crate::text::TextCapabilities;
use menagerie_assembly::{AssembleOptions, Purpose, StagePlan, bytes_on_disk, open_model};
use menagerie_model::{AdapterSite, Compute, FeedForwardWrapper, LinearWrapper, WeightGuard};
use menagerie_spec::AdapterKind;
use std::sync::Arc;

/// The parts of a model before they become a pipeline.
pub(crate) struct LoadedParts {
    pub(crate) resolved: ResolvedFile,
    pub(crate) made: Assemblies,
    /// The layers of each stage, if the model is split.
    pub(crate) plan: Option<StagePlan>,
    /// Where adapters can act; empty for embeddings.
    pub(crate) sites: Vec<AdapterSite>,
    pub(crate) compute: Compute,
    pub(crate) text: TextCapabilities,
    /// Bytes of the weights in the memory of the device.
    pub(crate) weights: u64,
    /// Bytes of free memory, if known.
    pub(crate) free: Option<u64>,
    /// The tensors that are parts of a mixture.
    pub(crate) mixture: MixtureRoles,
    /// Fails once a file has changed since it was opened.
    pub(crate) guard: Arc<WeightGuard>,
}

/// Opens and assembles a model.
pub(crate) fn load(request: &LoadRequest, purpose: Purpose) -> Result<LoadedParts, LoadError> {
    let options = &request.options;
    check(request, purpose)?;
    stages::check(options)?;
    let ResolvedModel { mut resolved, compute, free, shared } = open(request)?;
    resolved.beside = options.changing_files();
    if purpose == Purpose::AsWritten && resolved.config().output.classifier.is_some() {
        let reason = "a reranker: its head gives scores and cannot continue a text; use `rerank`".to_owned();
        return Err(LoadError::Purpose { file: resolved.file_name(), reason });
    }
    let plan =
        options.placement.stages.as_ref().map(|stages| stages.own_plan(&resolved)).transpose()?.flatten();
    let mapped = stages::in_processes(options).then(|| (resolved.clone(), stages::mapped(request)));
    let quantized = if shared { None } else { quantized(&mut resolved, request)? };
    let in_memory = !options.weights.mmap || options.weights.quantization.is_some();
    let mut weights = match (shared && in_memory) || stages::are_elsewhere(options) {
        true => 0,
        false => weight_bytes(&resolved, quantized.as_deref(), &compute, free)?,
    };
    let (base, request) = mapped.as_ref().map_or((&resolved, request), |(base, request)| (base, request));
    let base = MixtureBase { resolved: base, request, compute: &compute };
    let (made, text) = with_text(&resolved, options, || assembled(base, purpose, plan.as_ref()));
    if let Some(quantized) = &quantized {
        resolved.loading.push(quantized.notice());
        if copies(&resolved, &compute) {
            quantized.forget();
        }
    }
    let ((made, sites), mixture) = made?;
    let mut guards = vec![resolved.file.guard()];
    let mut roles = MixtureRoles::default();
    if let Some(mixture) = mixture {
        resolved.loading.push(mixture.notice);
        weights = weights.saturating_add(mixture.bytes);
        guards.extend(mixture.guards);
        roles = mixture.roles;
    }
    if !options.weights.mmap {
        // The weights are in memory, so a change of a file has no effect on them.
        guards.clear();
    }
    let guard: WeightGuard = Box::new(move || guards.iter().try_for_each(|guard| guard()));
    let guard = Arc::new(guard);
    Ok(LoadedParts { resolved, made, plan, sites, compute, text, weights, free, mixture: roles, guard })
}

/// Runs `assemble` while a thread reads tokenizer and chat template.
fn with_text<T>(
    resolved: &ResolvedFile,
    options: &LoadOptions,
    assemble: impl FnOnce() -> Result<T, LoadError>,
) -> (Result<T, LoadError>, TextCapabilities) {
    let read = || TextCapabilities::read(resolved, options.chat_template.as_ref());
    std::thread::scope(|scope| {
        let text =
            std::thread::Builder::new().name("menagerie-tokenizer".to_owned()).spawn_scoped(scope, read);
        let made = assemble();
        let text = match text {
            Ok(thread) => thread.join().unwrap_or_else(|_| TextCapabilities::failed(resolved)),
            Err(_) => read(),
        };
        (made, text)
    })
}

/// A file before anything is assembled of it.
struct ResolvedModel {
    resolved: ResolvedFile,
    compute: Compute,
    /// Bytes of free memory, if known.
    free: Option<u64>,
    /// Whether another pipeline has its weights already.
    shared: bool,
}

/// Opens a file, or takes it from the pipeline that has it open.
fn open(request: &LoadRequest) -> Result<ResolvedModel, LoadError> {
    let LoadRequest { path, environment, options, .. } = request;
    let PlacementOptions { device, threads, .. } = &options.placement;
    let free = |compute: &Compute| memory::free(options.context.memory_limit, compute);
    if let Some((resolved, compute)) = request.opened.as_ref().and_then(|opened| opened.of(path)) {
        return Ok(ResolvedModel { free: free(&compute), resolved, compute, shared: true });
    }
    let backend = device.backend(environment.entries(), *threads, options.weights.arithmetic)?;
    let compute = Compute::new(backend, options.weights.arithmetic);
    let free = free(&compute);
    if !options.weights.mmap {
        check_file_fits(request, free)?;
    }
    let mmap = options.weights.mmap || stages::in_processes(options);
    let file = open_model(path, environment.entries(), mmap)?;
    let resolved = ResolvedFile::new(file, environment, options.keys.clone())?;
    Ok(ResolvedModel { resolved, compute, free, shared: false })
}

/// What was assembled of a model, and the sites of its linears.
type MadeWithSites = (Assemblies, Vec<AdapterSite>);

/// The model in one piece or as stages. Stages in other processes assemble themselves; here the whole model is assembled
/// for its facts.
fn assembled(
    base: MixtureBase,
    purpose: Purpose,
    plan: Option<&StagePlan>,
) -> Result<(MadeWithSites, Option<LoadedMixture>), LoadError> {
    let MixtureBase { resolved, request, compute } = base;
    let wrapper = request.wrapping.as_ref().map(|LinearWrapping(make)| make(&resolved.spec));
    let mixture = request.options.composition.mixture.as_ref();
    let mixture = mixture.map(|options| LoadedMixture::load(options, base)).transpose()?;
    let mut how = AssembleOptions::whole(compute, resolved.environment.components()).with_purpose(purpose);
    how.wrapper = wrapper.as_deref().map(|wrapper| wrapper as &dyn LinearWrapper);
    how.feed_forwards = mixture.as_ref().map(|mixture| &mixture.layers as &dyn FeedForwardWrapper);
    let made = assembled_with(resolved, &how, &request.options, plan)?;
    Ok((made, mixture))
}

fn assembled_with(
    resolved: &ResolvedFile,
    how: &AssembleOptions,
    options: &LoadOptions,
    plan: Option<&StagePlan>,
) -> Result<MadeWithSites, LoadError> {
    if how.purpose == Purpose::Vectors {
        return Ok((Assemblies::Whole(resolved.assemble(how)?), Vec::new()));
    }
    let whole = || resolved.assemble_adaptable(how);
    let Some(stages) = &options.placement.stages else {
        let (made, sites) = whole()?;
        return Ok((Assemblies::Whole(made), sites));
    };
    match (&stages.place, plan) {
        (StagePlace::Processes(_) | StagePlace::Elsewhere(_), _) | (_, None) => {
            let (whole, sites) = whole()?;
            Ok((Assemblies::Split { stages: Vec::new(), whole: Some(whole) }, sites))
        }
        (StagePlace::Threads, Some(plan)) => {
            let with_whole = stages.probe != StageProbe::Never && !copies(resolved, how.compute);
            Assemblies::split(resolved, how, plan, with_whole)
        }
    }
}

/// Whether the device copies weights instead of reading them in place.
fn copies(resolved: &ResolvedFile, compute: &Compute) -> bool {
    resolved.tensors.entries().iter().any(|tensor| tensor.bytes_taken(compute) > 0)
}

/// Refuses options that make no sense, alone or together.
fn check(request: &LoadRequest, purpose: Purpose) -> Result<(), LoadError> {
    let LoadOptions { context, placement, composition, .. } = &request.options;
    let CompositionOptions { adapters, mixture } = composition;
    let has_mixture = mixture.is_some();
    let fault = match (context, placement.threads) {
        (ContextOptions { tokens: Some(0), .. }, _) => {
            "a context must hold at least one token (-c 1 or more)"
        }
        (ContextOptions { chunk: 0, .. }, _) => "a chunk must have at least one token (--chunk 1 or more)",
        (_, Some(0)) => "at least one thread is needed (-t 1 or more)",
        _ if purpose == Purpose::Vectors && !adapters.is_empty() => {
            "adapters are supported for text generation only, not for embeddings"
        }
        _ if purpose == Purpose::Vectors && placement.stages.is_some() => {
            "stages are supported for text generation only, not for embeddings"
        }
        _ if request.options.keys.nextn && placement.stages.is_some() => {
            "the head for further tokens needs the whole model: use --draft heads without --stages"
        }
        _ if request.options.keys.nextn && composition.xlora().is_some() => {
            "drafts are not possible with an X-LoRA, whose adapters are weighted from the rows of a whole step: leave out --draft heads"
        }
        _ if !mixes_alone(adapters) => {
            "X-LoRA mixes only the adapters that it was trained with: give --xlora once and without other adapters"
        }
        _ if has_mixture && composition.xlora().is_some() => {
            "X-LoRA needs the model that its adapters were trained on, but the [mixture] of a recipe changes it: use one of them"
        }
        _ if has_mixture && request.wrapping.is_some() => {
            "an importance matrix cannot be measured on a recipe with a [mixture]: use its base"
        }
        _ => return Ok(()),
    };
    Err(LoadError::Options(fault.to_owned()))
}

/// Whether there is no X-LoRA, or nothing beside it.
fn mixes_alone(adapters: &[AdapterOption]) -> bool {
    adapters.len() < 2 || adapters.iter().all(|adapter| adapter.kind != AdapterKind::XLora)
}

/// Without a mapping the file is read into memory when it is opened, so it must fit before that.
fn check_file_fits(request: &LoadRequest, free: Option<u64>) -> Result<(), LoadError> {
    let weights = bytes_on_disk(&request.path, request.environment.entries());
    let estimate = MemoryEstimate { weights, available: free, ..MemoryEstimate::default() };
    check_fits(&request.path.display().to_string(), estimate, 0)
}

/// Bytes of the weights in the memory of the device. A device that copies weights does so while the model is assembled, so
/// they must fit before that.
fn weight_bytes(
    resolved: &ResolvedFile,
    quantized: Option<&QuantizedTensors>,
    compute: &Compute,
    free: Option<u64>,
) -> Result<u64, LoadError> {
    let tensors = resolved.tensors.entries().iter().take(resolved.tensors.file_tensors());
    let taken: u64 = tensors.map(|tensor| tensor.bytes_taken(compute)).sum();
    // Quantized weights have memory of their own.
    let taken = quantized.filter(|_| taken == 0).map_or(taken, QuantizedTensors::bytes);
    if taken == 0 {
        return Ok(resolved.file.bytes().saturating_add(resolved.tensors.converted_bytes()));
    }
    let estimate = MemoryEstimate { weights: taken, available: free, ..MemoryEstimate::default() };
    check_fits(&resolved.file_name(), estimate, 0).map(|()| taken)
}

//! From a path to an assembled model and its text capabilities; what every kind of pipeline opens alike.
//!
//! File, environment, spec, weights, tokenizer, in this order; the tokenizer is built on a thread beside the weights.

mod notices;

pub(crate) use notices::notices;

use crate::adapters::MixtureRoles;
use crate::error::LoadError;
use crate::fitting::check_fits;
use crate::memory::{MemoryEstimate, available};
use crate::mixture::{LoadedMixture, MixtureBase};
use crate::options::{AdapterOption, LoadOptions, LoadWrapper};
use crate::quantization::{QuantizedTensors, quantized};
use crate::resolved::{Assemblies, ResolvedFile, Wrappers};
use crate::stage_options::{StagePlace, StageProbe};
use crate::stages;
use crate::text::Text;
use menagerie_assembly::{Purpose, StagePlan, bytes_on_disk, open_model};
use menagerie_model::{AdapterSite, Compute, FeedForwardWrapper, WeightGuard};
use menagerie_registry::{Environment, SpecFolder, SpecFolders};
use menagerie_spec::AdapterKind;
use std::path::Path;
use std::sync::Arc;

/// A model that was opened.
pub(crate) struct Loaded {
    pub(crate) resolved: ResolvedFile,
    pub(crate) made: Assemblies,
    /// The layers of each stage, where the model is split.
    pub(crate) plan: Option<StagePlan>,
    /// Where adapters may act; none where no text is made.
    pub(crate) sites: Vec<AdapterSite>,
    pub(crate) compute: Compute,
    pub(crate) text: Text,
    /// Bytes of the weights where they are computed with.
    pub(crate) weights: u64,
    /// Bytes that can be taken, where that is known.
    pub(crate) free: Option<u64>,
    /// The tensors that are parts of a mixture.
    pub(crate) mixture: MixtureRoles,
    /// Fails once a file is not what was opened.
    pub(crate) guard: Arc<WeightGuard>,
}

/// The architectures that are linked in and those of the spec folders of this process.
///
/// # Errors
/// A name that two crates register, a kind whose table contradicts itself, or a folder that was asked for and cannot be
/// read.
pub fn environment(options: &LoadOptions) -> Result<Environment, LoadError> {
    let folders = SpecFolder::of_process(&options.spec_dirs);
    let folders = SpecFolders::default().with_folders(folders).with_allow_shadow(options.allow_shadow);
    Environment::linked().and_then(|linked| linked.with_spec_folders(folders)).map_err(LoadError::Registry)
}

/// Opens and assembles.
pub(crate) fn load(
    path: &Path,
    environment: &Environment,
    options: &LoadOptions,
    purpose: Purpose,
) -> Result<Loaded, LoadError> {
    check(options)?;
    stages::check(options)?;
    let Begun { mut resolved, compute, free, taken } = begun(path, environment, options)?;
    if purpose == Purpose::AsWritten && resolved.config().output.classifier.is_some() {
        let reason = "a reranker: its head gives scores and cannot continue a text; use `rerank`".to_owned();
        return Err(LoadError::Purpose { file: resolved.file_name(), reason });
    }
    let plan = options.stages.as_ref().map(|stages| stages.plan(&resolved)).transpose()?;
    let looking = stages::in_processes(options).then(|| (resolved.clone(), stages::looking(options)));
    let quantized =
        if taken { None } else { quantized(&mut resolved, options.quantization.as_ref(), options.threads)? };
    let weights = match taken && (!options.mmap || options.quantization.is_some()) {
        true => 0,
        false => weights_taken(&resolved, quantized.as_deref(), &compute, free)?,
    };
    let base = match &looking {
        Some((resolved, options)) => MixtureBase { resolved, environment, options, compute: &compute },
        None => MixtureBase { resolved: &resolved, environment, options, compute: &compute },
    };
    let (made, text) = std::thread::scope(|scope| {
        let text = std::thread::Builder::new()
            .name("menagerie-tokenizer".to_owned())
            .spawn_scoped(scope, || Text::read(&resolved, environment, options));
        let made = assembled(base, purpose, plan.as_ref());
        let text = match text {
            Ok(thread) => thread.join().unwrap_or_else(|_| Text::failed(&resolved)),
            Err(_) => Text::read(&resolved, environment, options),
        };
        (made, text)
    });
    if let Some(quantized) = &quantized {
        resolved.loading.push(quantized.notice());
        if copies(&resolved, &compute) {
            quantized.forget();
        }
    }
    let ((made, sites), mixture) = made?;
    let mut guards = vec![resolved.file.guard()];
    let mut roles = MixtureRoles::default();
    let mut weights = weights;
    if let Some(mixture) = mixture {
        resolved.loading.push(mixture.notice);
        weights = weights.saturating_add(mixture.bytes);
        guards.extend(mixture.guards);
        roles = mixture.roles;
    }
    if !options.mmap {
        // What was read into memory, here or by stages, no file changes any more.
        guards.clear();
    }
    let guard: WeightGuard = Box::new(move || guards.iter().try_for_each(|guard| guard()));
    let guard = Arc::new(guard);
    Ok(Loaded { resolved, made, plan, sites, compute, text, weights, free, mixture: roles, guard })
}

/// A file before anything is made of it.
struct Begun {
    resolved: ResolvedFile,
    compute: Compute,
    /// Bytes that can be taken, where that is known.
    free: Option<u64>,
    /// Whether another pipeline has its weights already.
    taken: bool,
}

/// Opens a file, or takes it from who has it open.
fn begun(path: &Path, environment: &Environment, options: &LoadOptions) -> Result<Begun, LoadError> {
    let free =
        |compute: &Compute| options.memory_limit.or_else(|| compute.backend.free_memory()).or_else(available);
    if let Some((resolved, compute)) = options.opened.as_ref().and_then(|opened| opened.of(path)) {
        return Ok(Begun { free: free(&compute), resolved, compute, taken: true });
    }
    let backend = options.device.backend(environment.entries(), options.threads, options.arithmetic)?;
    let compute = Compute::new(backend, options.arithmetic);
    let free = free(&compute);
    if !options.mmap {
        check_file_fits(path, environment, free)?;
    }
    let file = open_model(path, environment.entries(), options.mmap || stages::in_processes(options))?;
    let resolved = ResolvedFile::new(file, environment, options.keys())?;
    Ok(Begun { resolved, compute, free, taken: false })
}

/// What was made of a model, and the sites of its linears.
type MadeWithSites = (Assemblies, Vec<AdapterSite>);

/// The model in one piece, its stages, or what is needed of it where stages are in processes of their own.
fn assembled(
    base: MixtureBase,
    purpose: Purpose,
    plan: Option<&StagePlan>,
) -> Result<(MadeWithSites, Option<LoadedMixture>), LoadError> {
    let MixtureBase { resolved, options, .. } = base;
    let wrapper = options.wrapper.as_ref().map(|LoadWrapper(make)| make(&resolved.spec));
    let mixture = options.mixture.as_ref().map(|given| LoadedMixture::load(given, base)).transpose()?;
    let feed_forwards = mixture.as_ref().map(|mixture| &mixture.layers as &dyn FeedForwardWrapper);
    let around = Wrappers { linears: wrapper.as_deref().map(|wrapper| wrapper as _), feed_forwards };
    let made = assembled_around(base, around, purpose, plan)?;
    Ok((made, mixture))
}

fn assembled_around(
    MixtureBase { resolved, options, compute, .. }: MixtureBase,
    around: Wrappers,
    purpose: Purpose,
    plan: Option<&StagePlan>,
) -> Result<MadeWithSites, LoadError> {
    if purpose == Purpose::Vectors {
        let made = resolved.assemble_around(compute, purpose, around)?;
        return Ok((Assemblies::Whole(made), Vec::new()));
    }
    let (Some(plan), Some(stages)) = (plan, &options.stages) else {
        let (made, sites) = resolved.assemble_with_sites(compute, around)?;
        return Ok((Assemblies::Whole(made), sites));
    };
    match stages.place {
        // The facts of the model are those of the whole one over the mapped file.
        StagePlace::Processes(_) => {
            let (whole, sites) = resolved.assemble_with_sites(compute, around)?;
            Ok((Assemblies::Split { stages: Vec::new(), whole: Some(whole) }, sites))
        }
        StagePlace::Threads => {
            let with_whole = stages.probe != StageProbe::Never && !copies(resolved, compute);
            resolved.assemble_split(compute, around, plan, with_whole)
        }
    }
}

/// Whether the device takes copies of weights instead of reading them in place.
fn copies(resolved: &ResolvedFile, compute: &Compute) -> bool {
    resolved.tensors.entries().iter().any(|tensor| tensor.bytes_taken(compute) > 0)
}

fn check(options: &LoadOptions) -> Result<(), LoadError> {
    let fault = match options {
        LoadOptions { context: Some(0), .. } => "a context must hold at least one token (-c 1 or more)",
        LoadOptions { chunk: 0, .. } => "a chunk must have at least one token (--chunk 1 or more)",
        LoadOptions { threads: Some(0), .. } => "at least one thread is needed (-t 1 or more)",
        LoadOptions { adapters, .. } if !mixes_alone(adapters) => {
            "X-LoRA mixes the adapters it was trained with, and no others: give --xlora alone, and once"
        }
        LoadOptions { mixture: Some(_), adapters, .. }
            if adapters.iter().any(|one| one.kind == AdapterKind::XLora) =>
        {
            "X-LoRA mixes its adapters over the model they were trained on, which a recipe's [mixture] changes: use one of them"
        }
        LoadOptions { mixture: Some(_), wrapper: Some(_), .. } => {
            "an importance matrix is measured on one model, and this recipe has a [mixture]: name its base instead"
        }
        _ => return Ok(()),
    };
    Err(LoadError::Options(fault.to_owned()))
}

/// Whether there is no X-LoRA, or one and nothing beside it.
fn mixes_alone(adapters: &[AdapterOption]) -> bool {
    adapters.len() < 2 || adapters.iter().all(|adapter| adapter.kind != AdapterKind::XLora)
}

/// Without a mapping the file is read into memory at once: better to look first.
fn check_file_fits(path: &Path, environment: &Environment, free: Option<u64>) -> Result<(), LoadError> {
    let weights = bytes_on_disk(path, environment.entries());
    let estimate = MemoryEstimate { weights, available: free, ..MemoryEstimate::default() };
    check_fits(&path.display().to_string(), estimate, 0)
}

/// Bytes of the weights where they are computed with. A device that takes copies does so when the model is assembled:
/// whether they fit is found out before.
fn weights_taken(
    resolved: &ResolvedFile,
    quantized: Option<&QuantizedTensors>,
    compute: &Compute,
    free: Option<u64>,
) -> Result<u64, LoadError> {
    let tensors = resolved.tensors.entries().iter().take(resolved.tensors.stored());
    let taken: u64 = tensors.map(|tensor| tensor.bytes_taken(compute)).sum();
    // What is made while loading lies in memory of its own.
    let taken = quantized.filter(|_| taken == 0).map_or(taken, QuantizedTensors::bytes);
    if taken == 0 {
        return Ok(resolved.file.bytes().saturating_add(resolved.tensors.made_bytes()));
    }
    let estimate = MemoryEstimate { weights: taken, available: free, ..MemoryEstimate::default() };
    check_fits(&resolved.file_name(), estimate, 0).map(|()| taken)
}

//! From a path to an assembled model and its text capabilities; what every kind of pipeline opens alike.
//!
//! File, environment, spec, weights, tokenizer, in this order; the tokenizer is built on a thread beside the weights.

use crate::config::{DeviceOptions, GivenAdapter, LoadOptions, LoadWrapper};
use crate::init::{
    Around, FileTokenizer, LoadError, MemoryEstimate, Notice, QuantizedTensors, ResolvedFile, TemplateFormat,
    available, tokenizer_tables,
};
use crate::mixture::{LoadedMixture, MixtureBase, MixtureRoles};
use crate::stages::{self, Made, StagePlace, StageProbe};
use menagerie_assembly::{Purpose, StagePlan, bytes_on_disk, open_model};
use menagerie_engine::{ChatCapable, DEFAULT_CONTEXT, MissingCapability, Tokenizing};
use menagerie_kernels::HalfPrompts;
use menagerie_loaders::{ChatTemplate, Tokenizer, TokenizerOptions, TokenizerTables};
use menagerie_model::{AdapterSite, Arithmetic, Compute, FeedForwardWrapper, WeightGuard};
use menagerie_registry::{Environment, SpecFolder, SpecFolders};
use menagerie_spec::AdapterKind;
use std::path::Path;
use std::sync::Arc;

/// Fewest tokens a context is made smaller to where nobody asked for one.
const SMALLEST_CONTEXT: usize = 512;

/// Context of models that do not say what they were trained with.
const UNTRAINED_CONTEXT: usize = 4096;

/// Contexts are made smaller by whole multiples of so many tokens.
const CONTEXT_STEP: usize = 256;

/// A model that was opened.
pub(crate) struct Loaded {
    pub(crate) resolved: ResolvedFile,
    pub(crate) made: Made,
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

/// Tokenizer and chat format, or why they are missing.
pub(crate) struct Text {
    pub(crate) tokenizer: Result<Arc<dyn Tokenizing>, MissingCapability>,
    pub(crate) chat_format: Result<Arc<dyn ChatCapable>, MissingCapability>,
    /// What must be said about the tables of spec folders.
    pub(crate) notices: Vec<Notice>,
}

/// The architectures that are linked in and those of the spec folders of this process.
///
/// # Errors
/// Nothing linked in, or a folder that was asked for cannot be read.
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
    let quantized = if taken { None } else { quantized(&mut resolved, options)? };
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
    let on = DeviceOptions { threads: options.threads, half_prompts: options.half_prompts };
    let compute = Compute::new(options.device.backend(on)?, options.arithmetic);
    let free = free(&compute);
    if !options.mmap {
        check_file_fits(path, free)?;
    }
    let file = open_model(path, options.mmap || stages::in_processes(options))?;
    let resolved = ResolvedFile::new(file, environment, options.keys())?;
    Ok(Begun { resolved, compute, free, taken: false })
}

/// What was made of a model, and the sites of its linears.
type MadeWithSites = (Made, Vec<AdapterSite>);

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
    let around = Around { linears: wrapper.as_deref().map(|wrapper| wrapper as _), feed_forwards };
    let made = assembled_around(base, around, purpose, plan)?;
    Ok((made, mixture))
}

fn assembled_around(
    MixtureBase { resolved, options, compute, .. }: MixtureBase,
    around: Around,
    purpose: Purpose,
    plan: Option<&StagePlan>,
) -> Result<MadeWithSites, LoadError> {
    if purpose == Purpose::Vectors {
        let made = resolved.assemble_around(compute, purpose, around)?;
        return Ok((Made::Whole(made), Vec::new()));
    }
    let (Some(plan), Some(stages)) = (plan, &options.stages) else {
        let (made, sites) = resolved.assemble_with_sites(compute, around)?;
        return Ok((Made::Whole(made), sites));
    };
    match stages.place {
        // The facts of the model are those of the whole one over the mapped file.
        StagePlace::Processes(_) => {
            let (whole, sites) = resolved.assemble_with_sites(compute, around)?;
            Ok((Made::Split { stages: Vec::new(), whole: Some(whole) }, sites))
        }
        StagePlace::Threads => {
            let with_whole = stages.probe != StageProbe::Never && !copies(resolved, compute);
            resolved.assemble_split(compute, around, plan, with_whole)
        }
    }
}

/// Puts tensors in the types asked for before those of the file.
pub(crate) fn quantized(
    resolved: &mut ResolvedFile,
    options: &LoadOptions,
) -> Result<Option<Arc<QuantizedTensors>>, LoadError> {
    let Some(quantization) = &options.quantization else { return Ok(None) };
    let tensors = Arc::new(QuantizedTensors::new(resolved, quantization, options.threads)?);
    resolved.tensors = Arc::<QuantizedTensors>::clone(&tensors);
    Ok(Some(tensors))
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
        LoadOptions { arithmetic: Arithmetic::Exact, half_prompts: HalfPrompts::BFloat16, .. } => {
            "--exact computes in f32 and --half-prompts bf16 rounds to bfloat16: choose one of them"
        }
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
fn mixes_alone(adapters: &[GivenAdapter]) -> bool {
    adapters.len() < 2 || adapters.iter().all(|adapter| adapter.kind != AdapterKind::XLora)
}

/// Without a mapping the file is read into memory at once: better to look first.
fn check_file_fits(path: &Path, free: Option<u64>) -> Result<(), LoadError> {
    let weights = bytes_on_disk(path);
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

pub(crate) fn check_fits(file: &str, estimate: MemoryEstimate, fitting: usize) -> Result<(), LoadError> {
    if estimate.fits() {
        return Ok(());
    }
    Err(LoadError::Memory { file: file.to_owned(), estimate: Box::new(estimate), fitting })
}

/// What bounds the context of a model.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ContextLimits {
    /// Tokens it was trained with, if the file says.
    pub(crate) trained: Option<usize>,
    /// Learned positions, if it has them.
    pub(crate) learned_positions: Option<usize>,
}

/// The estimate for the context asked for, or for the largest usual one that fits; no more than there are learned positions.
pub(crate) fn fitting(
    file: &str,
    ContextLimits { trained, learned_positions }: ContextLimits,
    asked: Option<usize>,
    estimate: &dyn Fn(usize) -> Result<MemoryEstimate, LoadError>,
    notices: &mut Vec<Notice>,
) -> Result<MemoryEstimate, LoadError> {
    let most = learned_positions.unwrap_or(usize::MAX);
    if let (Some(asked), Some(positions)) = (asked, learned_positions)
        && asked > positions
    {
        notices.push(Notice::Note(format!(
            "a context of {asked} tokens was asked for, and is {positions}: the model has learned positions for {positions} tokens"
        )));
    }
    let asked = asked.map(|asked| asked.min(most));
    let usual = trained.unwrap_or(UNTRAINED_CONTEXT).min(most).clamp(1, DEFAULT_CONTEXT);
    let memory = estimate(asked.unwrap_or(usual))?;
    if let (Some(context), Some(trained)) = (asked, trained)
        && context > trained
    {
        notices.push(Notice::PastTrained { context, trained });
    }
    if memory.fits() {
        return Ok(memory);
    }
    let smaller = largest_fitting(memory.context, estimate)?;
    if asked.is_some() || smaller < SMALLEST_CONTEXT {
        return check_fits(file, memory, smaller).map(|()| memory);
    }
    notices.push(Notice::SmallContext { context: smaller, usual });
    estimate(smaller)
}

/// The largest multiple of [`CONTEXT_STEP`] below `context` that fits; 0 if none does. More tokens never need less.
fn largest_fitting(
    context: usize,
    estimate: &dyn Fn(usize) -> Result<MemoryEstimate, LoadError>,
) -> Result<usize, LoadError> {
    let (mut fits, mut too_large) = (0, context.div_ceil(CONTEXT_STEP));
    while fits + 1 < too_large {
        let middle = fits.midpoint(too_large);
        if estimate(middle * CONTEXT_STEP)?.fits() {
            fits = middle;
        } else {
            too_large = middle;
        }
    }
    Ok(fits * CONTEXT_STEP)
}

impl Text {
    fn read(resolved: &ResolvedFile, environment: &Environment, options: &LoadOptions) -> Self {
        let model = resolved.name();
        let config = &resolved.config().tokenizer;
        let (tables, notices) = match tokenizer_tables(environment) {
            Ok(tables) => tables,
            Err(error) => return Self::without(model, &error.to_string()),
        };
        let own = TokenizerOptions::default().with_pre(config.pre.as_deref()).with_tables(tables.clone());
        match resolved.file.tokenizer(&own) {
            Ok(tokenizer) => {
                let tokenizer = tokenizer.with_end_tokens(&config.end);
                let chat_format = chat_format(resolved, options, &tokenizer, &tables)
                    .map_err(|reason| MissingCapability::ChatTemplate { model, reason });
                let pair = match resolved.file.template_source("rerank") {
                    Ok(pair) => pair,
                    Err(error) => return Self::without(resolved.name(), &error.to_string()),
                };
                Self { tokenizer: Ok(Arc::new(FileTokenizer { tokenizer, pair })), chat_format, notices }
            }
            Err(error) => Self::without(model, &error.to_string()),
        }
    }

    fn without(model: String, reason: &str) -> Self {
        let missing = MissingCapability::Tokenizer { model, reason: reason.to_owned() };
        Self { tokenizer: Err(missing.clone()), chat_format: Err(missing), notices: Vec::new() }
    }

    fn failed(resolved: &ResolvedFile) -> Self {
        Self::without(
            resolved.name(),
            "building the tokenizer failed (a defect: please report it with the file's name)",
        )
    }
}

/// The template given by hand, the file's, or the spec's.
fn chat_format(
    resolved: &ResolvedFile,
    options: &LoadOptions,
    tokenizer: &Tokenizer,
    tables: &TokenizerTables,
) -> Result<Arc<dyn ChatCapable>, String> {
    let compile = |name: &str, source: &str| {
        let text = |id: Option<u32>| id.and_then(|id| tokenizer.token_text(id).ok());
        let (bos, eos) = (text(tokenizer.bos()), text(tokenizer.eos()));
        ChatTemplate::new(name, source, bos, eos).map(Some).map_err(|error| error.to_string())
    };
    let template = match (&options.chat_template, &resolved.config().chat_fallback) {
        (Some(given), _) => compile(&given.name, &given.source)?,
        (None, fallback) => {
            match resolved.file.chat_template(tokenizer).map_err(|error| error.to_string())? {
                None => match fallback {
                    Some(fallback) => compile("fallback of the spec", tables.chat_template_of(fallback)?)?,
                    None => None,
                },
                own => own,
            }
        }
    };
    let template = template.ok_or_else(|| "the file has no chat template".to_owned())?;
    Ok(Arc::new(TemplateFormat::new(template, tokenizer.clone())))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 100 bytes per token up to 4096, one per token after that: a window and a little that sees everything.
    fn windowed(context: usize) -> Result<MemoryEstimate, LoadError> {
        let state = 100 * context.min(4096) + context.saturating_sub(4096);
        Ok(MemoryEstimate {
            state: state as u64,
            context,
            available: Some(420_000),
            ..MemoryEstimate::default()
        })
    }

    #[test]
    fn the_largest_context_that_fits_is_found_where_windows_bend_the_line() {
        assert_eq!(largest_fitting(8192, &windowed).unwrap(), 8192 - 256);
        assert_eq!(largest_fitting(100_000, &windowed).unwrap(), 14_336);
        let tight =
            |context| windowed(context).map(|memory| MemoryEstimate { available: Some(60_000), ..memory });
        assert_eq!(largest_fitting(8192, &tight).unwrap(), 512);
        let nothing =
            |context| windowed(context).map(|memory| MemoryEstimate { available: Some(9), ..memory });
        assert_eq!(largest_fitting(8192, &nothing).unwrap(), 0);
    }
}

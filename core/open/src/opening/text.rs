//! [`open_text`]: from a path to a language model.

use crate::adapters::{GivenFiles, LoadedAdapters, mixed};
use crate::error::LoadError;
use crate::fitting::{ContextLimits, fitting};
use crate::loaded_model::LoadedModel;
use crate::loading::{Loaded, environment, load, notices};
use crate::memory::MemoryEstimate;
use crate::notice::Notice;
use crate::options::LoadOptions;
use crate::recipe::applied;
use crate::resolved::{Assemblies, ResolvedFile};
use crate::stage_options::{StagePlace, StageProbe};
use crate::stages;
use menagerie_assembly::{AssembledModel, Assembly, Purpose, StagePlan};
use menagerie_engine::{Engine, SamplingOptions, TextPipeline, snapshot_bytes, with_point};
use menagerie_model::{
    AdapterSite, Arithmetic, Compute, Executor, KvType, NormedExecutor, PoolOptions, WholeModel,
};
use menagerie_registry::Environment;
use menagerie_stages::StageChain;
use std::path::Path;
use std::sync::Arc;

/// Opens a model file as a language model, with the architectures that are linked in and those of the spec folders.
///
/// A tokenizer or chat template that is absent or cannot be read is no error here: [`TextPipeline::tokenizer`] and
/// [`TextPipeline::chat_format`] then say why.
///
/// # Errors
/// What is wrong with the file, its architecture, its keys or tensors (all at once), the options, or memory.
pub fn open_text(
    path: impl AsRef<Path>,
    options: &LoadOptions,
) -> Result<LoadedModel<TextPipeline>, LoadError> {
    open_text_with(path, &environment(options)?, options)
}

/// [`open_text`] with this environment.
///
/// # Errors
/// As [`open_text`].
pub fn open_text_with(
    path: impl AsRef<Path>,
    environment: &Environment,
    options: &LoadOptions,
) -> Result<LoadedModel<TextPipeline>, LoadError> {
    let path = path.as_ref();
    let (path, options) = applied(path, environment, options)?;
    let mut loaded = load(&path, environment, &options, Purpose::AsWritten)?;
    loaded.resolved.beside = options.overrides();
    finish(&path, loaded, GivenFiles::read(&options.adapters)?, &options)
}

/// Chooses cache type and context, compares with memory, and puts the pipeline together.
fn finish(
    path: &Path,
    loaded: Loaded,
    given: GivenFiles,
    options: &LoadOptions,
) -> Result<LoadedModel<TextPipeline>, LoadError> {
    let Loaded { resolved, made, plan, sites, compute, text, weights, free, mixture, guard } = loaded;
    let mut notices = notices(&resolved, &text, &compute, options);
    let is_f32 = made.is_f32(&*resolved.tensors);
    let kv_type = options.kv_type.unwrap_or_else(|| default_kv_type(is_f32, options.arithmetic));
    let file = resolved.file_name();
    let Running { model, mixed, whole } =
        running(made, plan.as_ref(), (&resolved, &sites), &compute, options)?;
    let adapters = mixed.unwrap_or_else(|| given.bytes());
    let working = working_bytes(&*model, options.chunk);
    let states = model.states();
    let estimate = |context: usize| {
        let room = PoolOptions::one_sequence(kv_type, context).with_step_tokens(options.chunk);
        let room = with_point(room.with_sets(model.state_sets()), states);
        let unfit = |source| LoadError::State { file: file.clone(), source };
        let snapshots = snapshot_bytes(states).saturating_mul(model.state_sets() as u64);
        let state = room.memory(states).map_err(unfit)?.saturating_add(snapshots);
        let memory = MemoryEstimate::new(weights, state, context, working);
        Ok(MemoryEstimate { adapters, available: free, ..memory })
    };
    let learned_positions = resolved.learned_positions();
    let limits = ContextLimits { trained: model.shape().max_seq_len, learned_positions };
    let memory = fitting(&file, limits, options.context, &estimate, &mut notices)?;
    let sampling = sampling(&resolved, &mut notices)?;
    tracing::info!(
        file,
        architecture = resolved.spec.id(),
        device = compute.backend.name(),
        kv_type = kv_type.name(),
        context = memory.context,
        "model opened"
    );
    let loaded = LoadedAdapters::new(sites).beside(mixture);
    let adapters = given.fit(&loaded, &resolved, &compute)?;
    let (context, chunk, guard) = (memory.context, options.chunk, Some(guard));
    let engine = Engine { model, compute, kv_type, context, learned_positions, chunk, guard, adapters };
    if let Some(whole) = whole {
        stages::probe(&file, &engine, whole)?;
    }
    // A cache type that the device has no form of is found out now instead of at the first word.
    let tiny = PoolOptions::one_sequence(kv_type, 1);
    engine.pool(tiny).map_err(|source| LoadError::State { file, source })?;
    let name = options.recipes.first().cloned().unwrap_or_else(|| resolved.name());
    let pipeline = TextPipeline::new(name, engine)
        .with_text(text.tokenizer, text.chat_format)
        .with_sampling_defaults(sampling);
    Ok(LoadedModel { pipeline, path: path.to_owned(), resolved, adapters: loaded, notices, memory })
}

/// What runs the steps of a model.
struct Running {
    model: Arc<dyn Executor>,
    /// Bytes of an X-LoRA around it.
    mixed: Option<u64>,
    /// The whole model, where a split one is to be compared with it.
    whole: Option<Arc<dyn Executor>>,
}

/// The model that was made, in one piece or as stages, perhaps with an X-LoRA around it.
fn running(
    made: Assemblies,
    plan: Option<&StagePlan>,
    place: (&ResolvedFile, &[AdapterSite]),
    compute: &Compute,
    options: &LoadOptions,
) -> Result<Running, LoadError> {
    match made {
        Assemblies::Whole(assembly) => {
            let whole = whole_model(place.0, assembly)?;
            let (model, mixed) = mixing(whole, place, compute, options)?;
            Ok(Running { model, mixed, whole: None })
        }
        Assemblies::Split { stages, whole } => {
            let (chain, whole) = split(place.0, (stages, whole), plan, compute, options)?;
            let (model, mixed) = mixing(chain, place, compute, options)?;
            let whole = whole.map(|whole| mixing(whole, place, compute, options)).transpose()?;
            Ok(Running { model, mixed, whole: whole.map(|(whole, _)| whole) })
        }
    }
}

/// The stages of a model as one executor, and the whole model where it is to be compared with them.
fn split(
    resolved: &ResolvedFile,
    (stages, whole): (Vec<Assembly>, Option<Assembly>),
    plan: Option<&StagePlan>,
    compute: &Compute,
    options: &LoadOptions,
) -> Result<(StageChain, Option<WholeModel>), LoadError> {
    let failed = |reason: &str| LoadError::Stages { file: resolved.file_name(), reason: reason.to_owned() };
    let (Some(plan), Some(how)) = (plan, &options.stages) else { return Err(failed("there is no plan")) };
    let chain = match (&how.place, &whole) {
        (StagePlace::Threads, _) => {
            stages::chain_of_threads(&resolved.file_name(), stages, &stages::names(plan), compute, how)?
        }
        #[cfg(unix)]
        (StagePlace::Processes(launcher), Some(whole)) => {
            stages::chain_of_processes(resolved, whole, plan, launcher, compute, options)?
        }
        (StagePlace::Processes(_), _) => return Err(failed("processes have no links on this system")),
    };
    let is_free = !(stages::in_processes(options) && stages::takes_copies(options));
    let whole = whole.filter(|_| how.probe != StageProbe::Never && is_free);
    Ok((chain, whole.map(|whole| whole_model(resolved, whole)).transpose()?))
}

/// The model in one piece or in stages, perhaps with an X-LoRA around it, whose bytes are given.
fn mixing<M: NormedExecutor + 'static>(
    model: M,
    (resolved, sites): (&ResolvedFile, &[AdapterSite]),
    compute: &Compute,
    options: &LoadOptions,
) -> Result<(Arc<dyn Executor>, Option<u64>), LoadError> {
    match options.xlora() {
        Some(folder) => {
            let (model, bytes) = mixed(folder, Box::new(model), (resolved, sites), compute)?;
            Ok((Arc::new(model), Some(bytes)))
        }
        None => Ok((Arc::new(model), None)),
    }
}

fn whole_model(resolved: &ResolvedFile, assembly: Assembly) -> Result<WholeModel, LoadError> {
    let purpose = |reason: &str| LoadError::Purpose { file: resolved.file_name(), reason: reason.to_owned() };
    match assembly.model {
        AssembledModel::Whole(model) => Ok(model),
        AssembledModel::Encoder(_) => Err(purpose(
            "an encoder: it makes embeddings and cannot continue a text; use `embed` (an EmbeddingPipeline)",
        )),
        AssembledModel::First(_) | AssembledModel::Middle(_) | AssembledModel::Last(_) => {
            Err(purpose("only a part of the model was assembled"))
        }
    }
}

/// f32 for `exact` and for files whose weights are all F32, else f16.
fn default_kv_type(is_f32: bool, arithmetic: Arithmetic) -> KvType {
    if is_f32 || matches!(arithmetic, Arithmetic::Exact) { KvType::F32 } else { KvType::F16 }
}

/// Rough heap of a forward over a chunk: a dozen rows of the stream's width and a few of a feed-forward four times as
/// wide, in f32 and as quantized activations; and two rows of logits.
fn working_bytes(model: &dyn Executor, chunk: usize) -> u64 {
    const ROWS: u64 = 32;
    let width = model.shape().embedding_length as u64;
    let rows = (chunk as u64).saturating_mul(width).saturating_mul(4 * ROWS);
    rows.saturating_add(model.logits_width() as u64 * 8)
}

impl ResolvedFile {
    /// llama.cpp's defaults of sampling, overridden by what the file recommends; and what of that is not followed.
    ///
    /// # Errors
    /// A key of the file has another type than sampling needs.
    pub fn sampling(&self) -> Result<(SamplingOptions, Vec<Notice>), LoadError> {
        let mut notices = Vec::new();
        let options = sampling(self, &mut notices)?;
        Ok((options, notices))
    }
}

fn sampling(resolved: &ResolvedFile, notices: &mut Vec<Notice>) -> Result<SamplingOptions, LoadError> {
    let stated = resolved.file.sampling_defaults()?;
    let mut options = SamplingOptions::default();
    let set = |target: &mut f32, value: Option<f32>| {
        if let Some(value) = value {
            *target = value;
        }
    };
    set(&mut options.temperature, stated.temperature);
    set(&mut options.top_p, stated.top_p);
    set(&mut options.min_p, stated.min_p);
    set(&mut options.xtc_probability, stated.xtc_probability);
    set(&mut options.xtc_threshold, stated.xtc_threshold);
    set(&mut options.repeat_penalty, stated.penalty_repeat);
    options.repeat_last_n = stated.penalty_last_n.unwrap_or(options.repeat_last_n);
    // llama.cpp reads 0 and negative numbers as "all".
    options.top_k = stated.top_k.map_or(options.top_k, |k| usize::try_from(k).unwrap_or(0));
    let unused = [
        ("general.sampling.mirostat", stated.mirostat.is_some_and(|mode| mode != 0)),
        ("general.sampling.sequence", stated.sequence.is_some()),
    ];
    for (key, _) in unused.into_iter().filter(|(_, stated)| *stated) {
        notices.push(Notice::Note(format!(
            "{key} of the file is not followed: the usual sampling chain is used"
        )));
    }
    if let Err(error) = options.check() {
        notices.push(Notice::Note(format!("the file's sampling defaults are not used: {error}")));
        return Ok(SamplingOptions::default());
    }
    Ok(options)
}

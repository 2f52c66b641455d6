//! [`finish_text`]: from an assembled model to a text pipeline.

use super::finish::{ContextMemory, FinishedParts, PipelineModel, PipelineParts, finish};
use crate::adapters::{AdapterFiles, LoadedAdapters, MixtureRoles, mixed};
use crate::error::LoadError;
use crate::loaded_model::LoadedModel;
use crate::loading::LoadedParts;
use crate::options::LoadOptions;
use crate::request::LoadRequest;
use crate::resolved::{Assemblies, ResolvedFile};
use crate::stage_options::{StagePlace, StageProbe};
use crate::stages;
use menagerie_assembly::{AssembledModel, Assembly, StagePlan};
use menagerie_engine::{Engine, TextPipeline, snapshot_bytes, with_snapshot_room};
use menagerie_model::{
    AdapterSite, Arithmetic, Compute, Executor, KvType, ModelError, NormedExecutor, PoolOptions, WholeModel,
};
use menagerie_stages::StageChain;
use std::sync::Arc;

/// The text pipeline of an assembled model.
pub(crate) fn finish_text(
    loaded: LoadedParts,
    request: &LoadRequest,
) -> Result<LoadedModel<TextPipeline>, LoadError> {
    let LoadedParts { resolved, made, plan, sites, compute, text, weights, free, mixture, guard } = loaded;
    let options = &request.options;
    let files = AdapterFiles::read(&options.composition.adapters)?;
    let is_f32 = made.is_f32(&*resolved.tensors, resolved.config().blocks());
    let kv_type = options.weights.kv_type;
    let kv_type = kv_type.unwrap_or_else(|| default_kv_type(is_f32, options.weights.arithmetic));
    let Executors { model, xlora, whole } =
        executors(made, plan.as_ref(), (&resolved, &sites), &compute, options)?;
    let has_states = !stages::are_elsewhere(options);
    let model = LanguageModel {
        model,
        whole,
        xlora,
        files,
        sites,
        mixture,
        kv_type,
        chunk: options.context.chunk,
        has_states,
    };
    finish(FinishedParts { model, resolved, compute, text, weights, free, guard }, request)
}

/// A model that generates text.
struct LanguageModel {
    model: Arc<dyn Executor>,
    /// The whole model, if a split one is compared with it.
    whole: Option<Arc<dyn Executor>>,
    /// Bytes of an X-LoRA.
    xlora: Option<u64>,
    files: AdapterFiles,
    sites: Vec<AdapterSite>,
    mixture: MixtureRoles,
    kv_type: KvType,
    /// Tokens of a step.
    chunk: usize,
    /// Whether the states are in the memory of this machine.
    has_states: bool,
}

impl PipelineModel for LanguageModel {
    type Pipeline = TextPipeline;

    fn trained_context(&self) -> Option<usize> {
        self.model.shape().max_seq_len
    }

    fn memory(&self, context: usize) -> Result<ContextMemory, ModelError> {
        let (states, sets) = (self.model.states(), self.model.state_sets());
        let room = PoolOptions::one_sequence(self.kv_type, context).with_step_tokens(self.chunk);
        let room = with_snapshot_room(room.with_sets(sets), states);
        let snapshots = snapshot_bytes(states).saturating_mul(sets as u64);
        Ok(ContextMemory {
            state: if self.has_states { room.memory(states)?.saturating_add(snapshots) } else { 0 },
            working: working_bytes(&*self.model, self.chunk),
            adapters: self.xlora.unwrap_or_else(|| self.files.bytes()),
        })
    }

    fn into_pipeline(self, parts: PipelineParts) -> Result<(TextPipeline, LoadedAdapters), LoadError> {
        let PipelineParts { name, resolved, compute, text, context, learned_positions, guard, notices } =
            parts;
        let (sampling, sampling_notices) = resolved.sampling()?;
        notices.extend(sampling_notices);
        tracing::info!(
            file = resolved.file_name(),
            architecture = resolved.spec.id(),
            device = compute.backend.name(),
            kv_type = self.kv_type.name(),
            context,
            "model opened"
        );
        let Self { model, whole, files, sites, mixture, kv_type, chunk, .. } = self;
        let loaded = LoadedAdapters::new(sites).beside(mixture);
        let adapters = files.fit(&loaded, resolved, &compute)?;
        let guard = Some(guard);
        let engine = Engine { model, compute, kv_type, context, learned_positions, chunk, guard, adapters };
        let file = resolved.file_name();
        if let Some(whole) = whole {
            stages::probe(&file, &engine, whole)?;
        }
        // A type of keys and values that the device does not support is reported now instead of at the first token.
        let tiny = PoolOptions::one_sequence(kv_type, 1);
        engine.pool(tiny).map_err(|source| LoadError::State { file, source })?;
        let pipeline = TextPipeline::new(name, engine)
            .with_text(text.tokenizer, text.chat_format)
            .with_sampling_defaults(sampling);
        Ok((pipeline, loaded))
    }
}

/// The executor of a model, and that of the whole model.
struct Executors {
    model: Arc<dyn Executor>,
    /// Bytes of an X-LoRA.
    xlora: Option<u64>,
    /// The whole model, if a split one is compared with it.
    whole: Option<Arc<dyn Executor>>,
}

/// The executor of a model in one piece or as stages, with the X-LoRA if there is one.
fn executors(
    made: Assemblies,
    plan: Option<&StagePlan>,
    place: (&ResolvedFile, &[AdapterSite]),
    compute: &Compute,
    options: &LoadOptions,
) -> Result<Executors, LoadError> {
    match made {
        Assemblies::Whole(assembly) => {
            let whole = whole_model(place.0, assembly)?;
            let (model, xlora) = with_xlora(whole, place, compute, options)?;
            Ok(Executors { model, xlora, whole: None })
        }
        Assemblies::Split { stages, whole } => {
            let (chain, whole) = split(place.0, (stages, whole), plan, compute, options)?;
            let (model, xlora) = with_xlora(chain, place, compute, options)?;
            let whole = whole.map(|whole| with_xlora(whole, place, compute, options)).transpose()?;
            Ok(Executors { model, xlora, whole: whole.map(|(whole, _)| whole) })
        }
    }
}

/// The stages of a model as one executor, and the whole model if it is compared with them.
fn split(
    resolved: &ResolvedFile,
    (stages, whole): (Vec<Assembly>, Option<Assembly>),
    plan: Option<&StagePlan>,
    compute: &Compute,
    options: &LoadOptions,
) -> Result<(StageChain, Option<WholeModel>), LoadError> {
    let failed = |reason: &str| LoadError::Stages { file: resolved.file_name(), reason: reason.to_owned() };
    let Some(how) = &options.placement.stages else { return Err(failed("there are no stages")) };
    let chain = match (&how.place, &whole, plan) {
        (StagePlace::Threads, _, Some(plan)) => {
            stages::chain_of_threads(&resolved.file_name(), stages, &stages::names(plan), compute, how)?
        }
        #[cfg(unix)]
        (StagePlace::Processes(launcher), Some(whole), Some(plan)) => {
            stages::chain_of_processes(resolved, whole, plan, launcher, compute, options)?
        }
        (StagePlace::Elsewhere(finder), Some(whole), _) => {
            stages::chain_elsewhere(resolved, whole, finder, compute, options)?
        }
        (_, _, None) => return Err(failed("there is no plan")),
        (_, _, Some(_)) => return Err(failed("processes have no links on this system")),
    };
    let is_free = !(stages::in_processes(options) && stages::takes_copies(options));
    let whole = whole.filter(|_| how.probe != StageProbe::Never && is_free);
    Ok((chain, whole.map(|whole| whole_model(resolved, whole)).transpose()?))
}

/// The executor of a model with the X-LoRA, if there is one, and the bytes of the X-LoRA.
fn with_xlora<M: NormedExecutor + 'static>(
    model: M,
    (resolved, sites): (&ResolvedFile, &[AdapterSite]),
    compute: &Compute,
    options: &LoadOptions,
) -> Result<(Arc<dyn Executor>, Option<u64>), LoadError> {
    match options.composition.xlora() {
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

/// f32 with exact arithmetic and for files with F32 weights only, else f16.
fn default_kv_type(is_f32: bool, arithmetic: Arithmetic) -> KvType {
    if is_f32 || matches!(arithmetic, Arithmetic::Exact) { KvType::F32 } else { KvType::F16 }
}

/// Approximate memory of a step: for each token a dozen rows of the stream's width and a few rows of a feed-forward that is
/// four times as wide, in f32 and as quantized activations; and two rows of logits.
fn working_bytes(model: &dyn Executor, chunk: usize) -> u64 {
    const ROWS: u64 = 32;
    let width = model.shape().embedding_length as u64;
    let rows = (chunk as u64).saturating_mul(width).saturating_mul(4 * ROWS);
    rows.saturating_add(model.logits_width() as u64 * 8)
}

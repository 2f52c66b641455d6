//! [`open_embedding`]: from a path to a model that makes vectors of texts.

use crate::adapters::LoadedAdapters;
use crate::error::LoadError;
use crate::fitting::{ContextLimits, fitting};
use crate::loaded_model::LoadedModel;
use crate::loading::{Loaded, environment, load, notices};
use crate::memory::MemoryEstimate;
use crate::options::LoadOptions;
use crate::recipe::applied;
use crate::resolved::Assemblies;
use menagerie_assembly::{AssembledModel, Assembly, Purpose};
use menagerie_engine::{EmbeddingEngine, EmbeddingPipeline};
use menagerie_model::{KvType, PoolOptions};
use menagerie_registry::Environment;
use std::path::Path;
use std::sync::Arc;

/// Opens a model file for vectors, with the architectures that are linked in and those of the spec folders: an encoder's
/// file, or a language model's, whose head is left out.
///
/// # Errors
/// As [`crate::open_text`].
pub fn open_embedding(
    path: impl AsRef<Path>,
    options: &LoadOptions,
) -> Result<LoadedModel<EmbeddingPipeline>, LoadError> {
    open_embedding_with(path, &environment(options)?, options)
}

/// [`open_embedding`] with this environment.
///
/// # Errors
/// As [`open_embedding`].
pub fn open_embedding_with(
    path: impl AsRef<Path>,
    environment: &Environment,
    options: &LoadOptions,
) -> Result<LoadedModel<EmbeddingPipeline>, LoadError> {
    let path = path.as_ref();
    let (path, options) = applied(path, environment, options)?;
    let (path, options) = (&*path, &*options);
    let Loaded { resolved, made, plan: _, sites: _, compute, text, weights, free, mixture: _, guard } =
        load(path, environment, options, Purpose::Vectors)?;
    let file = resolved.file_name();
    let Assemblies::Whole(Assembly { model: AssembledModel::Encoder(model), .. }) = made else {
        let reason = "only a part of the model was assembled".to_owned();
        return Err(LoadError::Purpose { file, reason });
    };
    let mut notices = notices(&resolved, &text, &compute, options);
    let estimate = |context: usize| {
        // A step may be one sequence of the whole context: its keys and values, and its activations.
        let room = PoolOptions::one_sequence(KvType::F32, context);
        let unfit = |source| LoadError::State { file: file.clone(), source };
        let state = room.memory(model.body.stack.states()).map_err(unfit)?;
        let working = (context as u64).saturating_mul(model.body.shape.embedding_length as u64 * 128);
        let memory = MemoryEstimate::new(weights, state, context, working);
        Ok(MemoryEstimate { available: free, ..memory })
    };
    let learned_positions = resolved.learned_positions();
    let limits = ContextLimits { trained: model.body.shape.max_seq_len, learned_positions };
    let memory = fitting(&file, limits, options.context, &estimate, &mut notices)?;
    let engine = EmbeddingEngine {
        model: Arc::new(model),
        compute,
        context: memory.context,
        learned_positions,
        step_tokens: options.chunk,
        guard: Some(guard),
        lifecycles: Vec::new(),
    };
    let name = options.recipes.first().cloned().unwrap_or_else(|| resolved.name());
    let pipeline = EmbeddingPipeline::new(name, engine, text.tokenizer);
    let adapters = LoadedAdapters::new(Vec::new());
    Ok(LoadedModel { pipeline, path: path.to_owned(), resolved, adapters, notices, memory })
}

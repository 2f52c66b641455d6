//! [`finish_embedding`]: from an assembled model to an embedding pipeline.

use super::finish::{ContextMemory, FinishedParts, PipelineModel, PipelineParts, finish};
use crate::adapters::LoadedAdapters;
use crate::error::LoadError;
use crate::loaded_model::LoadedModel;
use crate::loading::LoadedParts;
use crate::request::LoadRequest;
use crate::resolved::Assemblies;
use menagerie_assembly::{AssembledModel, Assembly};
use menagerie_engine::{EmbeddingEngine, EmbeddingPipeline};
use menagerie_model::{EmbeddingModel, KvType, ModelError, PoolOptions};
use std::sync::Arc;

/// Bytes of activations for each token and element of the stream.
const WORKING_BYTES: u64 = 128;

/// The embedding pipeline of an assembled model.
pub(crate) fn finish_embedding(
    loaded: LoadedParts,
    request: &LoadRequest,
) -> Result<LoadedModel<EmbeddingPipeline>, LoadError> {
    let LoadedParts { resolved, made, compute, text, weights, free, guard, .. } = loaded;
    let Assemblies::Whole(Assembly { model: AssembledModel::Encoder(model), .. }) = made else {
        let reason = "only a part of the model was assembled".to_owned();
        return Err(LoadError::Purpose { file: resolved.file_name(), reason });
    };
    let model = EncoderModel { model, chunk: request.options.context.chunk };
    finish(FinishedParts { model, resolved, compute, text, weights, free, guard }, request)
}

/// A model that makes embeddings.
struct EncoderModel {
    model: EmbeddingModel,
    /// Tokens of a step.
    chunk: usize,
}

impl PipelineModel for EncoderModel {
    type Pipeline = EmbeddingPipeline;

    fn trained_context(&self) -> Option<usize> {
        self.model.body.shape.max_seq_len
    }

    /// A step can be one sequence of the whole context, with its keys, values and activations.
    fn memory(&self, context: usize) -> Result<ContextMemory, ModelError> {
        let body = &self.model.body;
        let state = PoolOptions::one_sequence(KvType::F32, context).memory(body.stack.states())?;
        let width = body.shape.embedding_length as u64;
        let working = (context as u64).saturating_mul(width * WORKING_BYTES);
        Ok(ContextMemory { state, working, adapters: 0 })
    }

    fn into_pipeline(self, parts: PipelineParts) -> Result<(EmbeddingPipeline, LoadedAdapters), LoadError> {
        let PipelineParts { name, resolved, compute, text, context, learned_positions, guard, .. } = parts;
        tracing::info!(
            file = resolved.file_name(),
            architecture = resolved.spec.id(),
            device = compute.backend.name(),
            context,
            "model opened for embeddings"
        );
        let engine = EmbeddingEngine {
            model: Arc::new(self.model),
            compute,
            context,
            learned_positions,
            step_tokens: self.chunk,
            guard: Some(guard),
            lifecycles: Vec::new(),
        };
        let pipeline = EmbeddingPipeline::new(name, engine, text.tokenizer);
        Ok((pipeline, LoadedAdapters::new(Vec::new())))
    }
}

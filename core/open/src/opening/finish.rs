//! [`finish`]: the last steps of opening, the same for every kind of pipeline.

use crate::adapters::LoadedAdapters;
use crate::error::LoadError;
use crate::fitting::{ContextLimits, fitting};
use crate::loaded_model::LoadedModel;
use crate::loading::notices;
use crate::memory::MemoryEstimate;
use crate::notice::Notice;
use crate::request::LoadRequest;
use crate::resolved::ResolvedFile;
use crate::text::TextCapabilities;
use menagerie_model::{Compute, ModelError, WeightGuard};
use std::sync::Arc;

/// An assembled model that becomes a pipeline.
pub(super) trait PipelineModel {
    /// The pipeline.
    type Pipeline;

    /// Tokens of the training context, if the file states them.
    fn trained_context(&self) -> Option<usize>;

    /// The memory for a context of so many tokens, without the weights.
    fn memory(&self, context: usize) -> Result<ContextMemory, ModelError>;

    /// The pipeline, and the adapters that are loaded for it.
    fn into_pipeline(self, parts: PipelineParts) -> Result<(Self::Pipeline, LoadedAdapters), LoadError>;
}

/// The memory that a model needs besides its weights, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ContextMemory {
    /// Keys, values and recurrent states.
    pub(super) state: u64,
    /// Activations of a step.
    pub(super) working: u64,
    /// Adapters.
    pub(super) adapters: u64,
}

/// What a pipeline is made of besides the model.
pub(super) struct PipelineParts<'a> {
    pub(super) name: String,
    pub(super) resolved: &'a ResolvedFile,
    pub(super) compute: Compute,
    pub(super) text: TextCapabilities,
    /// Tokens of the context.
    pub(super) context: usize,
    pub(super) learned_positions: Option<usize>,
    pub(super) guard: Arc<WeightGuard>,
    /// Notices of the load.
    pub(super) notices: &'a mut Vec<Notice>,
}

/// An assembled model with what loading found out.
pub(super) struct FinishedParts<M> {
    pub(super) model: M,
    pub(super) resolved: ResolvedFile,
    pub(super) compute: Compute,
    pub(super) text: TextCapabilities,
    /// Bytes of the weights.
    pub(super) weights: u64,
    /// Bytes of free memory, if known.
    pub(super) free: Option<u64>,
    pub(super) guard: Arc<WeightGuard>,
}

/// Collects the notices, chooses a context that fits into memory, and makes the pipeline.
pub(super) fn finish<M: PipelineModel>(
    parts: FinishedParts<M>,
    request: &LoadRequest,
) -> Result<LoadedModel<M::Pipeline>, LoadError> {
    let FinishedParts { model, resolved, compute, text, weights, free, guard } = parts;
    let file = resolved.file_name();
    let mut notices = notices(&resolved, &text, &compute, request);
    let estimate = |context: usize| {
        let memory = model.memory(context);
        let ContextMemory { state, working, adapters } =
            memory.map_err(|source| LoadError::State { file: file.clone(), source })?;
        let estimate = MemoryEstimate::new(weights, state, context, working);
        Ok(MemoryEstimate { adapters, available: free, ..estimate })
    };
    let learned_positions = resolved.learned_positions();
    let limits = ContextLimits { trained: model.trained_context(), learned_positions };
    let memory = fitting(&file, limits, request.options.context.tokens, &estimate, &mut notices)?;
    let parts = PipelineParts {
        name: request.name(&resolved),
        resolved: &resolved,
        compute,
        text,
        context: memory.context,
        learned_positions,
        guard,
        notices: &mut notices,
    };
    let (pipeline, adapters) = model.into_pipeline(parts)?;
    let adapters = Arc::new(adapters);
    Ok(LoadedModel { pipeline, path: request.path.clone(), resolved, adapters, notices, memory })
}

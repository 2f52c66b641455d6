//! [`EmbeddingPipeline`]: an encoder with what belongs to it.

use crate::capability::{MissingCapability, Tokenizing};
use crate::embedding::{EmbeddingEngine, EmbeddingOptions};
use crate::error::GenerateError;
use crate::load::{Loaded, fitting, load, registry};
use crate::load_error::LoadError;
use crate::memory::MemoryEstimate;
use crate::notice::Notice;
use crate::options::LoadOptions;
use crate::resolve::ResolvedFile;
use menagerie_assembly::AssembledModel;
use menagerie_model::{KvType, PoolOptions};
use menagerie_registry::Registry;
use std::path::Path;
use std::sync::Arc;

/// A model that makes vectors of texts.
pub struct EmbeddingPipeline {
    name: String,
    engine: EmbeddingEngine,
    tokenizer: Result<Arc<dyn Tokenizing>, MissingCapability>,
    resolved: ResolvedFile,
    notices: Vec<Notice>,
    memory: MemoryEstimate,
}

impl EmbeddingPipeline {
    /// Opens an encoder's file with the architectures that are linked in and those of the spec folders.
    ///
    /// # Errors
    /// As [`crate::TextPipeline::open`]; [`LoadError::Purpose`] for a language model.
    pub fn open(path: &Path, options: &LoadOptions) -> Result<Self, LoadError> {
        Self::open_with(path, &registry(options)?, options)
    }

    /// [`Self::open`] with a registry at hand.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_with(path: &Path, registry: &Registry, options: &LoadOptions) -> Result<Self, LoadError> {
        let Loaded { resolved, assembly, compute, text, weights, free } = load(path, registry, options)?;
        let file = resolved.file_name();
        let AssembledModel::Encoder(model) = assembly.model else {
            let reason = "a language model, not an encoder; open it as a TextPipeline".to_owned();
            return Err(LoadError::Purpose { file, reason });
        };
        let mut notices = resolved.notices();
        notices.extend(options.device.thread_notice(options.threads));
        let estimate = |context: usize| {
            // A step may be one sequence of the whole context: its keys and values, and its activations.
            let room = PoolOptions::one_sequence(KvType::F32, context);
            let unfit = |source| LoadError::State { file: file.clone(), source };
            let state = room.memory(model.body.stack.states()).map_err(unfit)?;
            let working = (context as u64).saturating_mul(model.body.shape.embedding_length as u64 * 128);
            let memory = MemoryEstimate::new(weights, state, context, working);
            Ok(MemoryEstimate { available: free, ..memory })
        };
        let trained = model.body.shape.max_seq_len;
        let memory = fitting(&file, trained, options.context, &estimate, &mut notices)?;
        let engine = EmbeddingEngine {
            model: Arc::new(model),
            compute,
            context: memory.context,
            step_tokens: options.chunk,
            guard: Some(Arc::new(resolved.file.guard())),
        };
        let (name, tokenizer) = (resolved.name(), text.tokenizer);
        Ok(Self { name, engine, tokenizer, resolved, notices, memory })
    }

    /// The model's name, for people.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The encoder and how it computes.
    pub fn engine(&self) -> &EmbeddingEngine {
        &self.engine
    }

    /// Text to tokens.
    ///
    /// # Errors
    /// The file has no tokenizer.
    pub fn tokenizer(&self) -> Result<&Arc<dyn Tokenizing>, MissingCapability> {
        self.tokenizer.as_ref().map_err(Clone::clone)
    }

    /// The file, the spec and how it was resolved.
    pub fn resolved(&self) -> &ResolvedFile {
        &self.resolved
    }

    /// What must be said at each load.
    pub fn notices(&self) -> &[Notice] {
        &self.notices
    }

    /// What was estimated before loading.
    pub fn memory(&self) -> &MemoryEstimate {
        &self.memory
    }

    /// A vector `[D]` for each token sequence, or why there is none; see [`EmbeddingEngine::embed`].
    pub fn embed(
        &self,
        sequences: &[&[u32]],
        options: &EmbeddingOptions,
    ) -> Vec<Result<Vec<f32>, GenerateError>> {
        self.engine.embed(sequences, options)
    }
}

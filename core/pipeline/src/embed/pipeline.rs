//! [`EmbeddingPipeline`]: a model that makes vectors of texts, with what belongs to it.

use crate::capability::{Hookable, MissingCapability, Tokenizing};
use crate::config::{LoadOptions, applied};
use crate::embed::{
    DocumentScores, EmbeddingEngine, EmbeddingOptions, Normalization, TextTokens, Truncation, Typed,
};
use crate::error::{GenerateError, TextError};
use crate::hooks::{PipelineLifecycle, RequestKind};
use crate::init::{
    ContextLimits, LoadError, Loaded, MemoryEstimate, Notice, OpenedFile, ResolvedFile, environment, fitting,
    load, notices,
};
use crate::stages::Made;
use menagerie_assembly::{AssembledModel, Assembly, Purpose};
use menagerie_model::{KvType, PoolOptions};
use menagerie_registry::Environment;
use std::path::Path;
use std::sync::Arc;

/// A model that makes vectors of texts.
pub struct EmbeddingPipeline {
    name: String,
    engine: EmbeddingEngine,
    tokenizer: Result<Arc<dyn Tokenizing>, MissingCapability>,
    resolved: ResolvedFile,
    opened: OpenedFile,
    notices: Vec<Notice>,
    memory: MemoryEstimate,
}

impl EmbeddingPipeline {
    /// Opens a file with the architectures that are linked in and those of the spec folders: an encoder's, or a language
    /// model's, whose head is left out.
    ///
    /// # Errors
    /// As [`crate::TextPipeline::open`].
    pub fn open(path: impl AsRef<Path>, options: &LoadOptions) -> Result<Self, LoadError> {
        let path = path.as_ref();
        Self::open_with(path, &environment(options)?, options)
    }

    /// [`Self::open`] with this environment.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_with(
        path: impl AsRef<Path>,
        environment: &Environment,
        options: &LoadOptions,
    ) -> Result<Self, LoadError> {
        let path = path.as_ref();
        let (path, options) = applied(path, environment, options)?;
        let (path, options) = (&*path, &*options);
        let Loaded { resolved, made, plan: _, sites: _, compute, text, weights, free, mixture: _, guard } =
            load(path, environment, options, Purpose::Vectors)?;
        let file = resolved.file_name();
        let Made::Whole(Assembly { model: AssembledModel::Encoder(model), .. }) = made else {
            let reason = "only a part of the model was assembled".to_owned();
            return Err(LoadError::Purpose { file, reason });
        };
        let opened = OpenedFile::new(path, &resolved, &compute);
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
        let tokenizer = text.tokenizer;
        Ok(Self { name, engine, tokenizer, resolved, opened, notices, memory })
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

    /// The file as it is open here, for a pipeline of texts over the same weights ([`LoadOptions::opened`]).
    pub fn opened(&self) -> &OpenedFile {
        &self.opened
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

    /// The tokens of a text for [`Self::embed`], with what the file puts around it.
    ///
    /// # Errors
    /// The file has no tokenizer, the text cannot be split, or [`GenerateError::EmptyText`].
    pub fn tokens(&self, text: &str, truncation: Truncation) -> Result<TextTokens, GenerateError> {
        if text.is_empty() {
            return Err(GenerateError::EmptyText);
        }
        let tokenizer = self.tokenizer()?;
        let (tokens, cut) = match truncation {
            Truncation::Refuse => (tokenizer.encode_prompt(text)?, 0),
            Truncation::End => tokenizer.encode_prompt_within(text, self.engine.context)?,
        };
        Ok(TextTokens { tokens, cut })
    }

    /// The scores `[labels]` of each document for a query, as a reranker gives them: both are tokenized as text from
    /// outside and joined as the model was trained (`[CLS] query [SEP] document [SEP]`).
    ///
    /// # Errors
    /// The file has no classifier or no tokenizer, a text is empty; the errors of single documents stand in their places.
    pub fn rerank(
        &self,
        query: &str,
        documents: &[&str],
        truncation: Truncation,
    ) -> Result<Vec<Result<DocumentScores, GenerateError>>, GenerateError> {
        if self.engine.model.classifier.is_none() {
            return Err(MissingCapability::Classifier { model: self.name.clone() }.into());
        }
        let tokenizer = self.tokenizer()?;
        if query.is_empty() || documents.iter().any(|document| document.is_empty()) {
            return Err(GenerateError::EmptyText);
        }
        let pair = |document: &&str| match truncation {
            Truncation::Refuse => Ok((tokenizer.encode_pair(query, document)?, 0)),
            Truncation::End => tokenizer.encode_pair_within(query, document, self.engine.context),
        };
        let pairs = documents.iter().map(pair).collect::<Result<Vec<_>, TextError>>()?;
        let texts: Vec<Typed> =
            pairs.iter().map(|((tokens, second), _)| Typed { tokens, second: Some(*second) }).collect();
        let options = EmbeddingOptions { pooling: None, normalization: Normalization::None };
        let scores = self.engine.embed_typed(&texts, &options, RequestKind::Reranking);
        let scored = scores.into_iter().zip(&pairs);
        Ok(scored.map(|(scores, (_, cut))| Ok(DocumentScores { scores: scores?, cut: *cut })).collect())
    }
}

impl Hookable for EmbeddingPipeline {
    fn add_lifecycle(&mut self, lifecycle: Arc<dyn PipelineLifecycle>) {
        self.engine.lifecycles.push(lifecycle);
    }
}

//! [`EmbeddingPipeline`]: an embedding model with its tokenizer.

use crate::capability::Tokenizing;
use crate::embed::{
    DocumentScores, EmbeddingEngine, EmbeddingInput, EmbeddingOptions, Normalization, TextTokens, Truncation,
    VectorQueue,
};
use crate::error::{GenerateError, MissingCapability};
use crate::hooks::{Hookable, PipelineLifecycle, RequestKind};
use std::sync::Arc;

/// An embedding model, which makes vectors of texts.
pub struct EmbeddingPipeline {
    name: String,
    engine: EmbeddingEngine,
    tokenizer: Result<Arc<dyn Tokenizing>, MissingCapability>,
}

impl EmbeddingPipeline {
    /// A pipeline of the model's name, the encoder, and the tokenizer, or why it is missing.
    pub fn new(
        name: String,
        engine: EmbeddingEngine,
        tokenizer: Result<Arc<dyn Tokenizing>, MissingCapability>,
    ) -> Self {
        Self { name, engine, tokenizer }
    }

    /// The model's name, for messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The encoder with its device and arithmetic.
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

    /// A vector `[D]` for each token sequence, or its error; see [`EmbeddingEngine::embed`].
    pub fn embed(
        &self,
        sequences: &[&[u32]],
        options: &EmbeddingOptions,
    ) -> Vec<Result<Vec<f32>, GenerateError>> {
        self.engine.embed(sequences, options)
    }

    /// The tokens of a text for [`Self::embed`], with the special tokens that the file puts around it.
    ///
    /// # Errors
    /// The file has no tokenizer, the text cannot be tokenized, or [`GenerateError::EmptyText`].
    pub fn tokens(&self, text: &str, truncation: Truncation) -> Result<TextTokens, GenerateError> {
        if text.is_empty() {
            return Err(GenerateError::EmptyText);
        }
        let tokenizer = self.tokenizer()?;
        let (tokens, cut) = match truncation {
            Truncation::Refuse => (tokenizer.encode_prompt(text)?, 0),
            Truncation::End => tokenizer.encode_prompt_within(text, self.engine.context)?,
        };
        Ok(TextTokens { tokens, second: None, cut })
    }

    /// The tokens of a query and a document for a reranker, joined as the model was trained
    /// (`[CLS] query [SEP] document [SEP]`); special tokens in them are text.
    ///
    /// # Errors
    /// The file has no classifier or no tokenizer, a text cannot be tokenized, or [`GenerateError::EmptyText`].
    pub fn pair(
        &self,
        query: &str,
        document: &str,
        truncation: Truncation,
    ) -> Result<TextTokens, GenerateError> {
        if self.engine.model.classifier.is_none() {
            return Err(MissingCapability::Classifier { model: self.name.clone() }.into());
        }
        let tokenizer = self.tokenizer()?;
        if query.is_empty() || document.is_empty() {
            return Err(GenerateError::EmptyText);
        }
        let ((tokens, second), cut) = match truncation {
            Truncation::Refuse => (tokenizer.encode_pair(query, document)?, 0),
            Truncation::End => tokenizer.encode_pair_within(query, document, self.engine.context)?,
        };
        Ok(TextTokens { tokens, second: Some(second), cut })
    }

    /// A queue, whose texts share steps.
    pub fn queue(&self) -> VectorQueue {
        VectorQueue::new(self.engine.clone())
    }

    /// The scores `[labels]` of each document for a query, by a reranker; see [`Self::pair`].
    ///
    /// # Errors
    /// As [`Self::pair`]. An error of one document is its result.
    pub fn rerank(
        &self,
        query: &str,
        documents: &[&str],
        truncation: Truncation,
    ) -> Result<Vec<Result<DocumentScores, GenerateError>>, GenerateError> {
        if self.engine.model.classifier.is_none() {
            return Err(MissingCapability::Classifier { model: self.name.clone() }.into());
        }
        let pair = |document: &&str| self.pair(query, document, truncation);
        let pairs = documents.iter().map(pair).collect::<Result<Vec<_>, _>>()?;
        let texts: Vec<EmbeddingInput> = pairs
            .iter()
            .map(|TextTokens { tokens, second, .. }| EmbeddingInput { tokens, second: *second })
            .collect();
        let options = EmbeddingOptions { pooling: None, normalization: Normalization::None };
        let scores = self.engine.embed_typed(&texts, &options, RequestKind::Reranking);
        let scored = scores.into_iter().zip(&pairs);
        Ok(scored.map(|(scores, pair)| Ok(DocumentScores { scores: scores?, cut: pair.cut })).collect())
    }
}

impl Hookable for EmbeddingPipeline {
    fn add_lifecycle(&mut self, lifecycle: Arc<dyn PipelineLifecycle>) {
        self.engine.lifecycles.push(lifecycle);
    }
}

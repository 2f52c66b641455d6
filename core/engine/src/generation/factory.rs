//! [`GenerationFactory`]: from requests to generations, with the tokenizer that they share.

use super::Generation;
use super::answer_text::AnswerText;
use super::breaker_cache::BreakerCache;
use super::prompt_scores::PromptScores;
use crate::capability::Tokenizing;
use crate::engine::Engine;
use crate::error::{GenerateError, MissingCapability};
use crate::reasoning::ReasoningSplitter;
use crate::request::Request;
use crate::sampling::{Chain, SamplingError};
use crate::stats::Statistics;
use crate::stopping::StopConditions;
use std::sync::Arc;
use std::time::Instant;

/// Creates generations. Without a tokenizer they have token ids and no text.
pub(crate) struct GenerationFactory {
    tokenizer: Option<Arc<dyn Tokenizing>>,
    breakers: BreakerCache,
}

impl GenerationFactory {
    pub(crate) fn new(tokenizer: Option<Arc<dyn Tokenizing>>) -> Self {
        Self { tokenizer, breakers: BreakerCache::default() }
    }

    pub(crate) fn tokenizer(&self) -> Option<&dyn Tokenizing> {
        self.tokenizer.as_deref()
    }

    /// A generation that answers `request` on `engine`; `splitter` separates reasoning from the answer.
    ///
    /// # Errors
    /// An option out of its range, a bias for a token past the vocabulary, or stop strings without a tokenizer.
    pub(crate) fn generation(
        &mut self,
        engine: &Engine,
        request: &Request,
        splitter: ReasoningSplitter,
    ) -> Result<Generation, GenerateError> {
        let tokenizer = self.tokenizer.as_deref();
        let breakers = self.breakers.breakers(tokenizer, &request.sampling);
        let ends = tokenizer.map_or(&[][..], |tokenizer| tokenizer.end_of_generation());
        let (vocabulary, mut sampling) = (engine.vocabulary(), request.sampling.clone());
        if let Some(&(id, _)) = sampling.logit_bias.iter().find(|(id, _)| *id as usize >= vocabulary) {
            return Err(SamplingError::BiasToken { id, vocabulary }.into());
        }
        if tokenizer.is_none() && request.stop.iter().any(|string| !string.is_empty()) {
            let reason = "stop strings need a tokenizer".to_owned();
            return Err(MissingCapability::Tokenizer { model: "the model".to_owned(), reason }.into());
        }
        if request.ignore_eos {
            sampling.logit_bias.extend(ends.iter().map(|&id| (id, f32::NEG_INFINITY)));
        }
        Ok(Generation {
            chain: Chain::with_breakers(&sampling, breakers)?,
            conditions: StopConditions::new(ends.to_vec(), request.max_tokens, engine.context),
            text: AnswerText::new(self.tokenizer.clone(), &request.stop, splitter),
            logprobs: request.logprobs,
            scores: request
                .prompt_logprobs
                .map(|first| PromptScores::new(first, request.logprobs.unwrap_or_default())),
            cancel: request.cancel.clone(),
            samples_anywhere: sampling.samplers.is_empty(),
            notes_start: false,
            tokens: Vec::new(),
            sampled: None,
            statistics: Statistics::default(),
            started: Instant::now(),
            decode_start: None,
            reprefills_before: 0,
            preemptions_before: [0; 2],
            progress: None,
        })
    }
}

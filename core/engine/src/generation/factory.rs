//! [`GenerationFactory`]: from requests to generations, with the tokenizer that they share.

use super::Generation;
use super::answer_text::AnswerText;
use super::breaker_cache::BreakerCache;
use super::prompt_scores::PromptScores;
use super::reasoning_budget::ReasoningBudget;
use super::tag_tokens::TagTokens;
use crate::capability::Tokenizing;
use crate::constraint::{ConstraintError, ConstraintScope};
use crate::draft::{DraftRequest, Drafting};
use crate::engine::Engine;
use crate::error::{GenerateError, MissingCapability};
use crate::request::Request;
use crate::sampling::{
    AnswerOpening, Chain, ChainStage, ConstraintPhase, ConstraintStep, InfillVocabulary, SamplingError,
    StageTexts,
};
use crate::scheduler::{Scheduler, check_drafts, check_head};
use crate::stats::Statistics;
use crate::stopping::StopConditions;
use menagerie_answers::AnswerParser;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

/// Creates generations. Without a tokenizer they have token ids and no text.
pub(crate) struct GenerationFactory {
    tokenizer: Option<Arc<dyn Tokenizing>>,
    breakers: BreakerCache,
    tags: TagTokens,
}

impl GenerationFactory {
    pub(crate) fn new(tokenizer: Option<Arc<dyn Tokenizing>>) -> Self {
        Self { tokenizer, breakers: BreakerCache::default(), tags: TagTokens::default() }
    }

    pub(crate) fn tokenizer(&self) -> Option<&dyn Tokenizing> {
        self.tokenizer.as_deref()
    }

    /// A generation that answers `request` on the engine of `scheduler`; `parser` finds the parts of the answer.
    ///
    /// # Errors
    /// An option out of its range, a bias for a token past the vocabulary, stop strings without a tokenizer, a
    /// constraint that cannot be started, or drafts that are not possible.
    pub(crate) fn generation(
        &mut self,
        scheduler: &Scheduler,
        request: &Request,
        parser: AnswerParser,
    ) -> Result<Generation, GenerateError> {
        let engine = scheduler.engine();
        check(scheduler, request)?;
        let (constraint, budget) = (self.constraint(request, &parser)?, self.budget(request, &parser)?);
        let parser = match constraint.as_ref().map(ConstraintStep::scope) {
            // What looks like a call in the reasoning must not end it.
            Some(ConstraintScope::Calls) => parser.with_only_calls(),
            Some(ConstraintScope::CallsOrText) => parser.with_calls_or_text(),
            _ => parser,
        };
        let tokenizer = self.tokenizer.as_deref();
        let breakers = self.breakers.breakers(tokenizer, &request.sampling);
        let texts = StageTexts { breakers, vocabulary: self.infill_vocabulary() };
        let ends = ends_of(tokenizer);
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
            chain: Chain::with_texts(&sampling, &texts)?
                .with_least([ends, &request.stop_tokens].concat(), request.min_tokens)
                .with_constraint(constraint),
            conditions: StopConditions::new(ends.to_vec(), request.max_tokens, engine.context)
                .with_stops(request.stop_tokens.clone()),
            text: AnswerText::new(self.tokenizer.clone(), &request.stop, parser)
                .with_limits(request.min_tokens, request.min_indent)
                .with_watch(request.constraint.is_some() || budget.is_some()),
            logprobs: request.logprobs,
            scores: request
                .prompt_logprobs
                .map(|first| PromptScores::new(first, request.logprobs.unwrap_or_default())),
            cancel: request.cancel.clone(),
            samples_anywhere: sampling.samplers.is_empty(),
            budget,
            drafting: drafting(request)?,
            notes_start: false,
            tokens: Vec::new(),
            end: None,
            sampled: None,
            statistics: Statistics::default(),
            started: Instant::now(),
            decode_start: None,
            reprefills_before: 0,
            preemptions_before: [0; 2],
            drafts_before: [0; 4],
            progress: None,
        })
    }

    /// What the sampler `infill` knows about the vocabulary.
    fn infill_vocabulary(&self) -> Option<InfillVocabulary> {
        let tokenizer = Arc::clone(self.tokenizer.as_ref()?);
        let ends = tokenizer.end_of_generation().into();
        let bytes = move |id| match tokenizer.is_control(id) {
            true => Vec::new(),
            false => tokenizer.bytes(id),
        };
        Some(InfillVocabulary { bytes: Arc::new(bytes), ends })
    }

    /// The limit of the reasoning of a request.
    fn budget(
        &mut self,
        request: &Request,
        parser: &AnswerParser,
    ) -> Result<Option<ReasoningBudget>, GenerateError> {
        let (Some(limit), Some(tokenizer)) = (request.reasoning_budget, self.tokenizer.as_deref()) else {
            return Ok(None);
        };
        let mut tags = HashMap::new();
        for close in parser.syntax().reasoning.iter().map(|tags| &tags.close) {
            let tokens = self.tags.marker(tokenizer, close).filter(|tokens| !tokens.is_empty());
            let reason = || {
                GenerateError::Options(format!(
                    "the tokens of the model do not write {close:?}, so its reasoning cannot be limited: leave out the limit"
                ))
            };
            tags.insert(close.clone(), tokens.ok_or_else(reason)?);
        }
        Ok(Some(ReasoningBudget::new(limit, tags, parser.reasoning_close())))
    }

    /// The constraint of a request. It begins where the answer begins: at the first token, or after the reasoning.
    fn constraint(
        &mut self,
        request: &Request,
        parser: &AnswerParser,
    ) -> Result<Option<ConstraintStep>, GenerateError> {
        let Some(constraint) = &request.constraint else { return Ok(None) };
        if request.ignore_eos {
            return Err(GenerateError::Options(
                "a constrained answer ends where its constraint ends, so the end of the answer cannot be ignored \
                 (--ignore-eos, ignore_eos): leave out one of the two"
                    .to_owned(),
            ));
        }
        let scope = constraint.scope();
        if parser.reads_calls() != (scope != ConstraintScope::Text) {
            let reason = match scope {
                ConstraintScope::Text => {
                    "a constrained answer cannot call tools: leave out the constraint or the tools"
                }
                _ => {
                    "the calls of an answer cannot be constrained without tools: give the tools of the constraint"
                }
            };
            return Err(GenerateError::Options(reason.to_owned()));
        }
        let tokenizer = self.tokenizer.as_deref();
        let ends = ends_of(tokenizer);
        let (phase, opening) = match tokenizer {
            None => (ConstraintPhase::Answer, AnswerOpening::default()),
            Some(_) if scope == ConstraintScope::CallsInText => {
                (ConstraintPhase::Free, AnswerOpening::default())
            }
            Some(tokenizer) => {
                let opening =
                    opening(&mut self.tags, tokenizer, parser, scope).map_err(SamplingError::from)?;
                let phase = match parser.is_in_reasoning() {
                    true => ConstraintPhase::Reasoning,
                    false => {
                        let tags = parser.reasoning_openings();
                        ConstraintPhase::First(self.tags.openings(tokenizer, tags))
                    }
                };
                (phase, opening)
            }
        };
        let step = ConstraintStep::new(Arc::clone(constraint), opening, phase, ends, request.cancel.clone());
        Ok(Some(step.map_err(SamplingError::from)?))
    }
}

/// Refuses a lens of another model, of a model that has none, or beside drafts.
fn check_lens(engine: &Engine, request: &Request) -> Result<(), GenerateError> {
    let Some(lens) = &request.lens else { return Ok(()) };
    engine.model.check_lens()?;
    lens.check_engine(engine)?;
    match request.draft {
        None => Ok(()),
        Some(_) => Err(GenerateError::Options(
            "a logit lens would read the tokens of wrong drafts: leave out the lens or the drafts (--draft)"
                .to_owned(),
        )),
    }
}

/// The tokens that end an answer.
fn ends_of(tokenizer: Option<&dyn Tokenizing>) -> &[u32] {
    tokenizer.map_or(&[][..], |tokenizer| tokenizer.end_of_generation())
}

/// Checks the limits of an answer, its lens, and that the model can be drafted, if the request asks for it.
fn check(scheduler: &Scheduler, request: &Request) -> Result<(), GenerateError> {
    check_limits(scheduler.engine().vocabulary(), request)?;
    check_lens(scheduler.engine(), request)?;
    let Some(draft) = &request.draft else { return Ok(()) };
    check_drafts(scheduler.engine(), scheduler.hooks())?;
    if draft.is_model_head() {
        check_head(scheduler.engine())?;
    }
    Ok(())
}

/// Checks the limits of an answer of a model with this vocabulary.
fn check_limits(vocabulary: usize, request: &Request) -> Result<(), GenerateError> {
    let refuse = |reason: String| Err(GenerateError::Options(reason));
    if let Some(id) = request.stop_tokens.iter().find(|id| **id as usize >= vocabulary) {
        return refuse(format!(
            "stop token {id}, but the vocabulary has {vocabulary} tokens, with ids from 0 (--stop-token, stop_token_ids)"
        ));
    }
    let least = request.min_tokens;
    if let Some(most) = request.max_tokens.filter(|most| *most < least) {
        return refuse(format!(
            "at least {least} tokens (--min-tokens, min_tokens), but at most {most}: raise the limit, or lower the minimum"
        ));
    }
    if least > 0 && request.constraint.is_some() {
        return refuse(
            "a constrained answer ends where its constraint ends, so it has no minimum of tokens (--min-tokens, min_tokens): \
             leave out one of the two"
                .to_owned(),
        );
    }
    let ends_early = request.sampling.order.as_ref().is_some_and(|order| order.contains(&ChainStage::Infill));
    if ends_early && (least > 0 || request.ignore_eos || request.constraint.is_some()) {
        return refuse(
            "the sampler `infill` ends an answer where no token is likely: leave it out of `samplers`, or leave out the \
             constraint, the minimum of tokens and the ignored end"
                .to_owned(),
        );
    }
    Ok(())
}

/// What guesses the answer to a request, if anything does.
fn drafting(request: &Request) -> Result<Option<Drafting>, GenerateError> {
    let Some(source) = &request.draft else { return Ok(None) };
    let asked = DraftRequest {
        max_tokens: request.max_tokens,
        cache_salt: request.cache_salt.clone(),
        cancel: request.cancel.clone(),
    };
    Drafting::new(&**source, &asked).map(Some)
}

/// What precedes the constrained part of an answer: what the prompt has of it, and the markers of its format.
fn opening(
    tags: &mut TagTokens,
    tokenizer: &dyn Tokenizing,
    parser: &AnswerParser,
    scope: ConstraintScope,
) -> Result<AnswerOpening, ConstraintError> {
    let syntax = parser.syntax();
    let after = syntax.after_reasoning();
    let mut tokens = |marker: &str| {
        let tokens = tags.marker(tokenizer, marker);
        tokens.ok_or_else(|| ConstraintError::Marker { marker: marker.to_owned() })
    };
    if matches!(scope, ConstraintScope::Calls | ConstraintScope::CallsOrText) {
        return Ok(AnswerOpening { written: syntax.begun.clone(), markers: [Vec::new(), tokens(after)?] });
    }
    let marker = syntax.answer_opening();
    let first = tokens(marker.strip_prefix(syntax.begun.as_str()).unwrap_or(marker))?;
    let later = tokens(&format!("{after}{marker}"))?;
    Ok(AnswerOpening { written: String::new(), markers: [first, later] })
}

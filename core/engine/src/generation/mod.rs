//! [`Generation`]: one answer: from each row of logits to a token, its text, and the decision whether to stop.

mod answer_text;
mod breaker_cache;
mod constrained;
mod drafts;
mod factory;
mod prompt_scores;
mod reasoning_budget;
mod tag_tokens;

pub(crate) use factory::GenerationFactory;

use answer_text::AnswerText;
use prompt_scores::PromptScores;
use reasoning_budget::ReasoningBudget;

use crate::draft::Drafting;
use crate::error::GenerateError;
use crate::hooks::{RequestArrival, RequestProgress, RequestStart};
use crate::output::StepOutput;
use crate::request::{Event, Outcome, TokenLogprob};
use crate::sampling::{Chain, SamplingError, log_probabilities};
use crate::scheduler::Scheduler;
use crate::sequence::Sequence;
use crate::stats::Statistics;
use crate::stopping::{StopConditions, StopReason};
use menagerie_answers::AnswerEnd;
use menagerie_model::{Part, SpanKey};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// One answer, with its sampling chain and its text. It runs no steps: a [`crate::Session`] or a [`crate::Queue`] runs
/// them and passes it the output.
pub(crate) struct Generation {
    chain: Chain,
    conditions: StopConditions,
    text: AnswerText,
    /// Alternatives of each token to report; `None` = no log probabilities.
    logprobs: Option<usize>,
    /// Reports the tokens of the prompt, if requested.
    scores: Option<PromptScores>,
    cancel: Option<Arc<AtomicBool>>,
    /// Whether its tokens may be sampled on another thread.
    samples_anywhere: bool,
    /// Ends the reasoning after a number of tokens, if requested.
    budget: Option<ReasoningBudget>,
    /// Guesses its next tokens, if requested.
    drafting: Option<Drafting>,
    /// Whether the sequence remembers where the answer starts, so that another answer to the same prompt is cheap.
    notes_start: bool,
    tokens: Vec<u32>,
    /// The token that ended the answer, to be reported after the text.
    end: Option<Event>,
    /// The next token, if it was sampled before its turn.
    sampled: Option<Result<u32, SamplingError>>,
    statistics: Statistics,
    started: Instant,
    /// When the logits after the prompt arrived.
    decode_start: Option<Instant>,
    reprefills_before: usize,
    preemptions_before: [usize; 2],
    drafts_before: [usize; 4],
    /// Reports to the pipeline's lifecycles, from the start of the prompt to the end.
    progress: Option<RequestProgress>,
}

/// A token to sample, on any thread.
pub(crate) struct TokenDraw<'d> {
    chain: &'d mut Chain,
    logits: &'d [f32],
    history: &'d [u32],
    sampled: &'d mut Option<Result<u32, SamplingError>>,
}

impl TokenDraw<'_> {
    /// The number of logits.
    pub(crate) fn width(&self) -> usize {
        self.logits.len()
    }

    /// Whether the answer has a constraint, which takes as long as the sampling of many logits.
    pub(crate) fn is_constrained(&self) -> bool {
        self.chain.constraint().is_some()
    }

    /// Samples the token.
    pub(crate) fn sample(&mut self) {
        *self.sampled = Some(self.chain.sample(self.logits, self.history));
    }
}

/// What follows a row of logits.
enum Decision {
    /// Feed this token back.
    Feed(u32),
    /// End the answer.
    Stop(StopReason),
}

impl Generation {
    /// Makes `sequence` remember where the answer starts.
    pub(crate) fn with_noted_start(mut self) -> Self {
        self.notes_start = true;
        self
    }

    /// The flag that cancels it.
    pub(crate) fn cancel_flag(&self) -> Option<&Arc<AtomicBool>> {
        self.cancel.as_ref()
    }

    /// Whether that flag is set.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancel.as_ref().is_some_and(|flag| flag.load(Ordering::Relaxed))
    }

    /// Starts, once `sequence` has the prompt; `queued` is how long the request has waited.
    pub(crate) fn begin(&mut self, arrival: RequestArrival, sequence: &Sequence, queued: Duration) {
        self.reprefills_before = sequence.reprefills();
        self.preemptions_before = [sequence.preemptions(), sequence.swaps()];
        self.drafts_before = sequence.draft.counts();
        self.chain.begin(sequence.prompt);
        let (prompt_tokens, cached_tokens) = (sequence.prompt, sequence.cached());
        (self.statistics.prompt_tokens, self.statistics.cached_tokens) = (prompt_tokens, cached_tokens);
        self.statistics.disk_tokens = sequence.from_disk;
        self.statistics.queued = queued;
        let adapters = sequence.adapters();
        self.progress = Some(arrival.initialized(&RequestStart { prompt_tokens, cached_tokens, adapters }));
    }

    /// The token that [`Self::advance`] will sample from this row of logits `[V]`. `None` if it will sample none, if it is
    /// known, or if samplers of other crates act.
    pub(crate) fn draw<'d>(&'d mut self, logits: &'d [f32], sequence: &'d Sequence) -> Option<TokenDraw<'d>> {
        let is_open = self.conditions.before(self.tokens.len()).is_none() && self.forced().is_none();
        let samples = self.samples_anywhere && is_open;
        let Self { chain, sampled, .. } = self;
        samples.then(|| TokenDraw { chain, logits, history: sequence.tokens(), sampled })
    }

    /// Takes the output of a step. If it has the logits of the last row, samples a token and feeds it back, or returns
    /// why the answer ends.
    ///
    /// # Errors
    /// No token is allowed, a token has no text, or the scheduler's error.
    pub(crate) fn advance(
        &mut self,
        scheduler: &mut Scheduler,
        sequence: &mut Sequence,
        output: StepOutput,
        sink: &mut dyn FnMut(Event),
    ) -> Result<Option<StopReason>, GenerateError> {
        let is_prompt = self.decode_start.is_none();
        if is_prompt {
            let (done, total) = (sequence.tokens().len(), self.statistics.prompt_tokens);
            sink(Event::Prefill { done, total, cached: sequence.cached() });
        }
        let width = scheduler.engine().vocabulary();
        let logits = match (&mut self.scores, output) {
            (Some(scores), StepOutput::AllLogits(rows)) => {
                scores.take(rows, width, sequence, &self.text, sink)
            }
            (_, output) => output.last_logits()?,
        };
        let Some(logits) = logits else { return Ok(None) };
        if is_prompt && self.notes_start {
            scheduler.note_answer_start(sequence, logits)?;
        }
        let trace = scheduler.hooks().trace.as_ref();
        let span = trace.map(|trace| trace.begin());
        let generated = self.statistics.generated_tokens;
        let decision = match self.decide(logits, sequence, sink) {
            // A constraint that is computed ends with an error.
            Err(_) if self.is_cancelled() => return Ok(Some(StopReason::Cancelled)),
            decision => decision?,
        };
        if let Some((trace, span)) = trace.zip(span) {
            trace.end(span, SpanKey { part: Part::Sampling, layer: None, decodes: true, rows: 1 });
        }
        if self.statistics.generated_tokens > generated
            && let Some(progress) = &mut self.progress
        {
            progress.token();
        }
        match decision {
            Decision::Stop(reason) => Ok(Some(reason)),
            Decision::Feed(id) => {
                if scheduler.push(sequence, id)? {
                    let tokens = sequence.tokens.len();
                    let notice = format!(
                        "the sequence reached {tokens} tokens: prefilled again with the long rope factors"
                    );
                    sink(Event::Notice(notice));
                }
                self.prepare_draft(id, scheduler, sequence, sink);
                Ok(None)
            }
        }
    }

    /// Samples the token after the last one of `sequence` from its logits `[V]`.
    fn decide(
        &mut self,
        logits: &[f32],
        sequence: &Sequence,
        sink: &mut dyn FnMut(Event),
    ) -> Result<Decision, GenerateError> {
        if self.decode_start.is_none() {
            self.statistics.prefill = self.started.elapsed();
            self.decode_start = Some(Instant::now());
        }
        if let Some(reason) = self.conditions.before(self.tokens.len()) {
            return Ok(Decision::Stop(reason));
        }
        let id = match (self.forced(), self.sampled.take()) {
            (Some(forced), _) => forced,
            (None, Some(sampled)) => sampled?,
            (None, None) => self.chain.sample(logits, sequence.tokens())?,
        };
        self.statistics.generated_tokens += 1;
        self.statistics.time_to_first_token.get_or_insert_with(|| self.started.elapsed());
        if let Some(reason) = self.conditions.at(id) {
            self.end = self.end_token(id, logits);
            return Ok(Decision::Stop(reason));
        }
        self.show(id, logits, sink);
        if let Some(reason) = self.take(id, sink)? {
            return Ok(Decision::Stop(reason));
        }
        let reason = self.conditions.after(self.tokens.len(), sequence.tokens().len());
        Ok(reason.map_or(Decision::Feed(id), Decision::Stop))
    }

    /// The next token, if the limit of the reasoning determines it.
    fn forced(&self) -> Option<u32> {
        self.budget.as_ref()?.forced()
    }

    /// Ends the answer. A token that was to be fed is not part of the sequence.
    ///
    /// # Errors
    /// `ending` is an error other than cancellation.
    pub(crate) fn finish(
        &mut self,
        ending: Result<StopReason, GenerateError>,
        sequence: &mut Sequence,
        sink: &mut dyn FnMut(Event),
    ) -> Result<Outcome, GenerateError> {
        sequence.forget_pending();
        let reason = match ending {
            Err(GenerateError::Cancelled) => StopReason::Cancelled,
            other => other?,
        };
        if !matches!(reason, StopReason::StopString(_) | StopReason::Indentation) {
            let end = match reason {
                StopReason::EndOfGeneration(_) | StopReason::StopToken(_) | StopReason::Complete => {
                    AnswerEnd::Model
                }
                _ => AnswerEnd::Cut,
            };
            self.text.finish(end, sink);
        }
        if let Some(event) = self.end.take() {
            sink(event);
        }
        match self.decode_start {
            Some(since) => self.statistics.decode = since.elapsed(),
            None => self.statistics.prefill = self.started.elapsed(),
        }
        let [preemptions, swaps] = self.preemptions_before;
        self.statistics.reprefills = sequence.reprefills() - self.reprefills_before;
        self.statistics.preemptions = sequence.preemptions() - preemptions;
        self.statistics.set_aside = sequence.swaps() - swaps;
        self.count_drafts(sequence);
        self.statistics.constraint = self.chain.constraint().map(|constraint| constraint.time());
        sink(Event::Done { reason: reason.clone() });
        Ok(Outcome {
            reason,
            tokens: std::mem::take(&mut self.tokens),
            text: std::mem::take(&mut self.text.answer),
            reasoning: std::mem::take(&mut self.text.reasoning),
            tool_calls: std::mem::take(&mut self.text.tool_calls),
            seed: self.chain.seed(),
            statistics: std::mem::take(&mut self.statistics),
        })
    }

    /// Reports the result to the pipeline's lifecycles.
    pub(crate) fn report(self, result: &Result<Outcome, GenerateError>) {
        if let Some(progress) = self.progress {
            progress.answered(result);
        }
    }

    fn show(&self, id: u32, logits: &[f32], sink: &mut dyn FnMut(Event)) {
        let (piece, bytes) = (self.text.piece(id), self.text.bytes(id));
        let (logprob, top) = self.scores(id, logits).unzip();
        sink(Event::Token { id, piece, bytes, logprob, top: top.unwrap_or_default() });
    }

    /// The event of a token that ends the answer, if log probabilities are requested.
    fn end_token(&self, id: u32, logits: &[f32]) -> Option<Event> {
        let (logprob, top) = self.scores(id, logits)?;
        Some(Event::EndToken { id, piece: self.text.piece(id), logprob, top })
    }

    /// The log probability of a token, and the most likely tokens in its place, if they are requested.
    fn scores(&self, id: u32, logits: &[f32]) -> Option<(f32, Vec<TokenLogprob>)> {
        let (own, top) = log_probabilities(logits, id, self.logprobs?);
        Some((own, top.into_iter().map(|token| self.text.named(token)).collect()))
    }
}

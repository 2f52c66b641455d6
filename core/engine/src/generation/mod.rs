//! [`Generation`]: one run from a prompt to its end, a row of logits at a time: sample, show, check, feed back.

mod text_out;

use text_out::TextOut;

use crate::capability::Tokenizing;
use crate::error::{GenerateError, MissingCapability};
use crate::reasoning::ReasoningSplitter;
use crate::request::{Event, Outcome, Request, TokenLogprob};
use crate::sampling::{Breakers, Chain, SamplingError, TokenProbability, log_probabilities};
use crate::sequence::Sequence;
use crate::stats::Statistics;
use crate::stopping::{StopReason, Stopping};
use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// One run, with its own chain and text state. It does not step anything: [`crate::Batch`] does, and hands it logits.
pub(crate) struct Generation<'a> {
    request: Cow<'a, Request>,
    chain: Chain,
    stopping: Stopping<'a>,
    text: TextOut<'a>,
    tokens: Vec<u32>,
    /// The next token, where it was drawn before its turn.
    drawn: Option<Result<u32, SamplingError>>,
    statistics: Statistics,
    started: Instant,
    /// When the logits after the prompt were there.
    decoding: Option<Instant>,
    reprefills_before: usize,
    preemptions_before: [usize; 2],
}

/// A token to be drawn.
pub(crate) struct Drawing<'d> {
    chain: &'d mut Chain,
    logits: &'d [f32],
    history: &'d [u32],
    drawn: &'d mut Option<Result<u32, SamplingError>>,
}

impl Drawing<'_> {
    /// Logits it is drawn from.
    pub(crate) fn width(&self) -> usize {
        self.logits.len()
    }

    /// Draws it.
    pub(crate) fn draw(&mut self) {
        *self.drawn = Some(self.chain.sample(self.logits, self.history));
    }
}

/// What comes after a row of logits.
pub(crate) enum Next {
    /// This token is fed back.
    Feed(u32),
    /// The end.
    Stop(StopReason),
}

impl<'a> Generation<'a> {
    /// A run of `request` in a context of so many tokens, over a vocabulary of so many.
    ///
    /// # Errors
    /// Options out of range, a bias for a token that does not exist, or stop strings without a tokenizer.
    pub(crate) fn new(
        request: Cow<'a, Request>,
        [context, vocabulary]: [usize; 2],
        tokenizer: Option<&'a dyn Tokenizing>,
        breakers: Arc<Breakers>,
        splitter: ReasoningSplitter,
    ) -> Result<Self, GenerateError> {
        let ends = tokenizer.map_or(&[][..], |tokenizer| tokenizer.end_of_generation());
        let mut sampling = request.sampling.clone();
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
        Ok(Self {
            chain: Chain::from_options(&sampling, breakers)?,
            stopping: Stopping::new(ends, request.max_tokens, context),
            text: TextOut::new(tokenizer, &request.stop, splitter),
            request,
            tokens: Vec::new(),
            drawn: None,
            statistics: Statistics::default(),
            started: Instant::now(),
            decoding: None,
            reprefills_before: 0,
            preemptions_before: [0; 2],
        })
    }

    /// What is asked.
    pub(crate) fn request(&self) -> &Request {
        &self.request
    }

    /// Tokens so far, the one that ended it included.
    pub(crate) fn generated(&self) -> usize {
        self.statistics.generated_tokens
    }

    /// The same as one that waited so long for its turn.
    pub(crate) fn after_waiting(mut self, queued: Duration) -> Self {
        self.statistics.queued = queued;
        self
    }

    /// Notes where the sequence stands once its prompt has begun.
    pub(crate) fn begin(&mut self, sequence: &Sequence) {
        self.reprefills_before = sequence.reprefills();
        self.preemptions_before = [sequence.preemptions(), sequence.swaps()];
        self.chain.begin(sequence.prompt);
        self.statistics.prompt_tokens = sequence.prompt;
        self.statistics.cached_tokens = sequence.cached();
    }

    /// Tokens of the prompt that are held now, and all of them; none once the answer has begun.
    pub(crate) fn prompt_progress(&self, sequence: &Sequence) -> Option<(usize, usize)> {
        self.decoding.is_none().then(|| (sequence.tokens().len(), self.statistics.prompt_tokens))
    }

    /// What [`Self::take`] of this row of logits `[V]` would draw, to be drawn on any thread before; none where it draws nothing, or
    /// where samplers of others act.
    pub(crate) fn drawing<'d>(
        &'d mut self,
        logits: &'d [f32],
        sequence: &'d Sequence,
    ) -> Option<Drawing<'d>> {
        let draws =
            self.request.sampling.samplers.is_empty() && self.stopping.before(self.tokens.len()).is_none();
        let Self { chain, drawn, .. } = self;
        draws.then(|| Drawing { chain, logits, history: sequence.tokens(), drawn })
    }

    /// Takes the row of logits `[V]` after the last token of `sequence`.
    ///
    /// # Errors
    /// No token that may be taken; a token that has no text.
    pub(crate) fn take(
        &mut self,
        logits: &[f32],
        sequence: &Sequence,
        sink: &mut dyn FnMut(Event),
    ) -> Result<Next, GenerateError> {
        if self.decoding.is_none() {
            self.statistics.prefill = self.started.elapsed();
            self.decoding = Some(Instant::now());
        }
        if let Some(reason) = self.stopping.before(self.tokens.len()) {
            return Ok(Next::Stop(reason));
        }
        let id = match self.drawn.take() {
            Some(drawn) => drawn?,
            None => self.chain.sample(logits, sequence.tokens())?,
        };
        self.statistics.generated_tokens += 1;
        self.statistics.time_to_first_token.get_or_insert_with(|| self.started.elapsed());
        if let Some(reason) = self.stopping.at(id) {
            return Ok(Next::Stop(reason));
        }
        self.tokens.push(id);
        self.show(id, logits, sink);
        if let Some(string) = self.text.push(id, sink)? {
            return Ok(Next::Stop(StopReason::StopString(string)));
        }
        let ended = self.stopping.after(self.tokens.len(), sequence.tokens().len());
        Ok(ended.map_or(Next::Feed(id), Next::Stop))
    }

    /// The outcome.
    pub(crate) fn finish(
        mut self,
        reason: StopReason,
        sequence: &Sequence,
        sink: &mut dyn FnMut(Event),
    ) -> Outcome {
        if !matches!(reason, StopReason::StopString(_)) {
            self.text.finish(sink);
        }
        match self.decoding {
            Some(since) => self.statistics.decode = since.elapsed(),
            None => self.statistics.prefill = self.started.elapsed(),
        }
        self.statistics.reprefills = sequence.reprefills() - self.reprefills_before;
        let [preemptions, aside] = self.preemptions_before;
        self.statistics.preemptions = sequence.preemptions() - preemptions;
        self.statistics.set_aside = sequence.swaps() - aside;
        sink(Event::Done { reason: reason.clone() });
        Outcome {
            reason,
            tokens: self.tokens,
            text: self.text.answer,
            reasoning: self.text.reasoning,
            seed: self.chain.seed(),
            statistics: self.statistics,
        }
    }

    fn show(&self, id: u32, logits: &[f32], sink: &mut dyn FnMut(Event)) {
        let Some(count) = self.request.logprobs else {
            return sink(Event::Token { id, piece: self.text.piece(id), logprob: None, top: Vec::new() });
        };
        let (own, top) = log_probabilities(logits, id, count);
        let named = |token: TokenProbability| TokenLogprob {
            id: token.id,
            piece: self.text.piece(token.id),
            logprob: token.logprob,
        };
        let top = top.into_iter().map(named).collect();
        sink(Event::Token { id, piece: self.text.piece(id), logprob: Some(own), top });
    }
}

//! [`Generation`]: one run from a prompt to its end: prefill, then sample, show, check, decode.

use crate::capability::{MissingCapability, TextStream, Tokenizing};
use crate::error::GenerateError;
use crate::reasoning::{ReasoningSplitter, Segment};
use crate::request::{Event, Outcome, Request, StopReason, TokenLogprob};
use crate::sampling::{Breakers, Chain, SamplingError, log_probabilities};
use crate::sequence::{Progress, Sequence, Wanted};
use crate::statistics::Statistics;
use crate::stop::StopMatcher;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// One run, with its own chain and text state.
pub struct Generation<'a> {
    sequence: &'a mut Sequence,
    request: &'a Request,
    chain: Chain,
    ends: &'a [u32],
    text: TextOut<'a>,
    tokens: Vec<u32>,
    history: Vec<u32>,
    statistics: Statistics,
}

/// From tokens to text events: decoder, stop strings, reasoning.
struct TextOut<'a> {
    tokenizer: Option<&'a dyn Tokenizing>,
    stream: Option<Box<dyn TextStream + Send + 'a>>,
    stop: StopMatcher,
    splitter: ReasoningSplitter,
    answer: String,
    reasoning: String,
}

impl<'a> Generation<'a> {
    /// A run of `request` on `sequence`.
    ///
    /// # Errors
    /// Options out of range, a bias for a token that does not exist, or stop strings without a tokenizer.
    pub fn new(
        sequence: &'a mut Sequence,
        tokenizer: Option<&'a dyn Tokenizing>,
        request: &'a Request,
        breakers: Arc<Breakers>,
        splitter: ReasoningSplitter,
    ) -> Result<Self, GenerateError> {
        let ends = tokenizer.map_or(&[][..], |tokenizer| tokenizer.end_of_generation());
        let vocabulary = sequence.engine().vocabulary();
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
        let text = TextOut {
            tokenizer,
            stream: tokenizer.map(|tokenizer| tokenizer.stream()),
            stop: StopMatcher::new(&request.stop),
            splitter,
            answer: String::new(),
            reasoning: String::new(),
        };
        let chain = Chain::from_options(&sampling, breakers)?;
        let (tokens, history, statistics) = Default::default();
        Ok(Self { sequence, request, chain, ends, text, tokens, history, statistics })
    }

    /// Runs to the end.
    ///
    /// # Errors
    /// What the prompt, the model or the text parts return; cancellation is an outcome.
    pub fn run(mut self, prompt: &[u32], sink: &mut dyn FnMut(Event)) -> Result<Outcome, GenerateError> {
        let started = Instant::now();
        let before = self.sequence.reprefills();
        self.statistics.prompt_tokens = prompt.len();
        self.history.extend_from_slice(prompt);
        let prefilled = self.prefill(prompt, sink);
        self.statistics.prefill = started.elapsed();
        let decoding = Instant::now();
        let reason = match prefilled {
            Ok(logits) => match self.decode(logits, started, sink) {
                Err(GenerateError::Cancelled) => StopReason::Cancelled,
                other => other?,
            },
            Err(GenerateError::Cancelled) => StopReason::Cancelled,
            Err(error) => return Err(error),
        };
        if !matches!(reason, StopReason::StopString(_)) {
            self.text.finish(sink);
        }
        self.statistics.decode = decoding.elapsed();
        self.statistics.reprefills = self.sequence.reprefills() - before;
        sink(Event::Done { reason: &reason });
        Ok(Outcome {
            reason,
            tokens: self.tokens,
            text: self.text.answer,
            reasoning: self.text.reasoning,
            seed: self.chain.seed(),
            statistics: self.statistics,
        })
    }

    fn prefill(&mut self, prompt: &[u32], sink: &mut dyn FnMut(Event)) -> Result<Vec<f32>, GenerateError> {
        let mut on_chunk = |done, total, cached| sink(Event::Prefill { done, total, cached });
        let mut progress = Progress { cancel: cancel_flag(self.request), on_chunk: &mut on_chunk };
        let prefilled = self.sequence.prefill(prompt, Wanted::Last, &mut progress)?;
        self.statistics.cached_tokens = prefilled.cached;
        Ok(prefilled.logits)
    }

    /// Samples and feeds back until there is a reason to stop.
    fn decode(
        &mut self,
        mut logits: Vec<f32>,
        started: Instant,
        sink: &mut dyn FnMut(Event),
    ) -> Result<StopReason, GenerateError> {
        let limit = self.request.max_tokens.unwrap_or(usize::MAX);
        let context = self.sequence.engine().context;
        loop {
            if self.tokens.len() >= limit {
                return Ok(StopReason::MaxTokens);
            }
            let id = self.chain.sample(&logits, &self.history)?;
            self.statistics.generated_tokens += 1;
            self.statistics.time_to_first_token.get_or_insert_with(|| started.elapsed());
            if self.ends.contains(&id) {
                return Ok(StopReason::EndOfGeneration(id));
            }
            self.tokens.push(id);
            self.history.push(id);
            self.show(id, &logits, sink);
            if let Some(string) = self.text.push(id, sink)? {
                return Ok(StopReason::StopString(string));
            }
            if self.tokens.len() >= limit {
                return Ok(StopReason::MaxTokens);
            }
            if self.sequence.tokens().len() >= context {
                return Ok(StopReason::ContextFull);
            }
            logits = self.feed(id, sink)?;
        }
    }

    /// Feeds a token back, and says so if everything had to be computed again.
    fn feed(&mut self, id: u32, sink: &mut dyn FnMut(Event)) -> Result<Vec<f32>, GenerateError> {
        let before = self.sequence.reprefills();
        let logits = self.sequence.decode(id, cancel_flag(self.request))?;
        if self.sequence.reprefills() > before {
            let tokens = self.sequence.tokens().len();
            let notice =
                format!("the sequence reached {tokens} tokens: prefilled again with the long rope factors");
            sink(Event::Notice(&notice));
        }
        Ok(logits)
    }

    fn show(&self, id: u32, logits: &[f32], sink: &mut dyn FnMut(Event)) {
        let piece = |id: u32| self.text.tokenizer.map(|tokenizer| tokenizer.piece(id)).unwrap_or_default();
        let Some(count) = self.request.logprobs else {
            return sink(Event::Token { id, piece: &piece(id), logprob: None, top: &[] });
        };
        let (own, top) = log_probabilities(logits, id, count);
        let named = |token: crate::sampling::TokenProbability| TokenLogprob {
            id: token.id,
            piece: piece(token.id),
            logprob: token.logprob,
        };
        let top: Vec<TokenLogprob> = top.into_iter().map(named).collect();
        sink(Event::Token { id, piece: &piece(id), logprob: Some(own), top: &top });
    }
}

fn cancel_flag(request: &Request) -> Option<&AtomicBool> {
    request.cancel.as_deref()
}

impl TextOut<'_> {
    /// Adds a token; the stop string it completed, if any.
    fn push(&mut self, id: u32, sink: &mut dyn FnMut(Event)) -> Result<Option<String>, GenerateError> {
        let Some(stream) = &mut self.stream else { return Ok(None) };
        let mut text = stream.push(id)?;
        // Tags of some models are control tokens, which have no text of their own.
        let control = self.tokenizer.and_then(|tokenizer| tokenizer.control_text(id));
        if let Some(tag) = control.filter(|tag| text.is_empty() && self.splitter.is_tag(tag)) {
            text = tag;
        }
        let released = self.stop.push(&text);
        let segments = self.splitter.push(&released.text);
        self.emit(segments, sink);
        if released.stopped.is_some() {
            let rest = self.splitter.finish();
            self.emit(rest, sink);
        }
        Ok(released.stopped)
    }

    /// Lets go of everything that is held.
    fn finish(&mut self, sink: &mut dyn FnMut(Event)) {
        let Some(stream) = &mut self.stream else { return };
        let mut text = self.stop.push(&stream.finish()).text;
        text.push_str(&self.stop.finish());
        let mut segments = self.splitter.push(&text);
        segments.extend(self.splitter.finish());
        self.emit(segments, sink);
    }

    fn emit(&mut self, segments: Vec<Segment>, sink: &mut dyn FnMut(Event)) {
        for segment in segments {
            match segment {
                Segment::Answer(text) => {
                    sink(Event::Text(&text));
                    self.answer.push_str(&text);
                }
                Segment::Reasoning(text) => {
                    sink(Event::Reasoning(&text));
                    self.reasoning.push_str(&text);
                }
            }
        }
    }
}

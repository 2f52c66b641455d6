//! [`AnswerText`]: from tokens to text events: decoder, stop strings, reasoning.

use crate::capability::{TextStream, Tokenizing};
use crate::constraint::ConstraintError;
use crate::error::GenerateError;
use crate::reasoning::{AnswerSegment, ReasoningSplitter};
use crate::request::{Event, TokenLogprob};
use crate::sampling::TokenProbability;
use crate::stopping::StopMatcher;
use std::sync::Arc;

/// The text of an answer. Without a tokenizer there is none.
pub(crate) struct AnswerText {
    tokenizer: Option<Arc<dyn Tokenizing>>,
    stream: Option<Box<dyn TextStream + Send>>,
    stop: StopMatcher,
    splitter: ReasoningSplitter,
    /// Finds the end of the reasoning for a constraint: gets all text at once, also what is held back for a stop string.
    watch: Option<ReasoningSplitter>,
    pub(crate) answer: String,
    pub(crate) reasoning: String,
}

impl AnswerText {
    /// An empty text that ends at one of the strings `stop`.
    pub(crate) fn new(
        tokenizer: Option<Arc<dyn Tokenizing>>,
        stop: &[String],
        splitter: ReasoningSplitter,
    ) -> Self {
        Self {
            stream: tokenizer.as_ref().map(|tokenizer| tokenizer.stream()),
            tokenizer,
            stop: StopMatcher::new(stop),
            splitter,
            watch: None,
            answer: String::new(),
            reasoning: String::new(),
        }
    }

    /// The same, with [`Self::left_reasoning`] if `watched`.
    pub(crate) fn with_watch(self, watched: bool) -> Self {
        Self { watch: watched.then(|| self.splitter.clone()), ..self }
    }

    /// The text of one token by itself; empty without a tokenizer.
    pub(crate) fn piece(&self, id: u32) -> String {
        self.tokenizer.as_ref().map(|tokenizer| tokenizer.piece(id)).unwrap_or_default()
    }

    /// The bytes that one token adds to a text; empty for control tokens and without a tokenizer.
    pub(crate) fn bytes(&self, id: u32) -> Vec<u8> {
        let text = self.tokenizer.as_ref().filter(|tokenizer| !tokenizer.is_control(id));
        text.map(|tokenizer| tokenizer.bytes(id)).unwrap_or_default()
    }

    /// A token with its log probability, its text and its bytes.
    pub(crate) fn named(&self, token: TokenProbability) -> TokenLogprob {
        let TokenProbability { id, logprob } = token;
        TokenLogprob { id, piece: self.piece(id), bytes: self.bytes(id), logprob }
    }

    /// Adds a token. Returns the stop string that it completes, if any.
    pub(crate) fn push(
        &mut self,
        id: u32,
        sink: &mut dyn FnMut(Event),
    ) -> Result<Option<String>, GenerateError> {
        let Some(stream) = &mut self.stream else { return Ok(None) };
        let mut text = stream.push(id)?;
        // The tags of some models are control tokens, which have no text in the stream.
        let control = self.tokenizer.as_ref().and_then(|tokenizer| tokenizer.control_text(id));
        if let Some(tag) = control.filter(|tag| text.is_empty() && self.splitter.is_tag(tag)) {
            text = tag;
        }
        if let Some(watch) = &mut self.watch {
            watch.push(&text);
        }
        let matched = self.stop.push(&text);
        let segments = self.splitter.push(&matched.text);
        self.emit(segments, sink);
        if matched.stop_string.is_some() {
            let rest = self.splitter.finish();
            self.emit(rest, sink);
        }
        Ok(matched.stop_string)
    }

    /// Whether the reasoning that the text began with has ended with the newest token `id`.
    ///
    /// # Errors
    /// The token also begins the answer.
    pub(crate) fn left_reasoning(&self, id: u32) -> Result<bool, ConstraintError> {
        let Some(watch) = self.watch.as_ref().filter(|watch| !watch.is_inside()) else { return Ok(false) };
        // The end of the token may be a part of a character, which is still held back.
        match watch.is_before_answer() && !self.piece(id).contains(char::REPLACEMENT_CHARACTER) {
            true => Ok(true),
            false => Err(ConstraintError::ReasoningEnd { token: id }),
        }
    }

    /// Emits what was held back; all text from now on is the answer, also text that looks like a tag of reasoning.
    pub(crate) fn begin_answer(&mut self, sink: &mut dyn FnMut(Event)) {
        let held = self.stop.finish();
        let segments = self.splitter.push(&held);
        self.emit(segments, sink);
        self.splitter = ReasoningSplitter::off();
        self.watch = None;
    }

    /// Emits the text that was held back.
    pub(crate) fn finish(&mut self, sink: &mut dyn FnMut(Event)) {
        let Some(stream) = &mut self.stream else { return };
        let mut text = self.stop.push(&stream.finish()).text;
        text.push_str(&self.stop.finish());
        let mut segments = self.splitter.push(&text);
        segments.extend(self.splitter.finish());
        self.emit(segments, sink);
    }

    fn emit(&mut self, segments: Vec<AnswerSegment>, sink: &mut dyn FnMut(Event)) {
        for segment in segments {
            match segment {
                AnswerSegment::Answer(text) => {
                    self.answer.push_str(&text);
                    sink(Event::Text(text));
                }
                AnswerSegment::Reasoning(text) => {
                    self.reasoning.push_str(&text);
                    sink(Event::Reasoning(text));
                }
            }
        }
    }
}

//! [`AnswerText`]: from tokens to text events: decoder, stop strings, reasoning.

use crate::capability::{TextStream, Tokenizing};
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
            answer: String::new(),
            reasoning: String::new(),
        }
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
        let matched = self.stop.push(&text);
        let segments = self.splitter.push(&matched.text);
        self.emit(segments, sink);
        if matched.stop_string.is_some() {
            let rest = self.splitter.finish();
            self.emit(rest, sink);
        }
        Ok(matched.stop_string)
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

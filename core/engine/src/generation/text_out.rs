//! [`TextOut`]: from tokens to text events: decoder, stop strings, reasoning.

use crate::capability::{TextStream, Tokenizing};
use crate::error::GenerateError;
use crate::reasoning::{ReasoningSplitter, Segment};
use crate::request::Event;
use crate::stopping::StopMatcher;

/// From tokens to text events: decoder, stop strings, reasoning.
pub(crate) struct TextOut<'a> {
    tokenizer: Option<&'a dyn Tokenizing>,
    stream: Option<Box<dyn TextStream + Send + 'a>>,
    stop: StopMatcher,
    splitter: ReasoningSplitter,
    pub(crate) answer: String,
    pub(crate) reasoning: String,
}

impl<'a> TextOut<'a> {
    /// Text of an answer; without a tokenizer there is none.
    pub(crate) fn new(
        tokenizer: Option<&'a dyn Tokenizing>,
        stop: &[String],
        splitter: ReasoningSplitter,
    ) -> Self {
        Self {
            tokenizer,
            stream: tokenizer.map(|tokenizer| tokenizer.stream()),
            stop: StopMatcher::new(stop),
            splitter,
            answer: String::new(),
            reasoning: String::new(),
        }
    }

    /// The text of one token by itself; empty without a tokenizer.
    pub(crate) fn piece(&self, id: u32) -> String {
        self.tokenizer.map(|tokenizer| tokenizer.piece(id)).unwrap_or_default()
    }

    /// Adds a token; the stop string it completed, if any.
    pub(crate) fn push(
        &mut self,
        id: u32,
        sink: &mut dyn FnMut(Event),
    ) -> Result<Option<String>, GenerateError> {
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
    pub(crate) fn finish(&mut self, sink: &mut dyn FnMut(Event)) {
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
                    self.answer.push_str(&text);
                    sink(Event::Text(text));
                }
                Segment::Reasoning(text) => {
                    self.reasoning.push_str(&text);
                    sink(Event::Reasoning(text));
                }
            }
        }
    }
}

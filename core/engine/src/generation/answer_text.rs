//! [`AnswerText`]: from tokens to text events: decoder, stop strings, parts of the answer.

use crate::capability::{TextStream, Tokenizing};
use crate::constraint::ConstraintError;
use crate::error::GenerateError;
use crate::request::{Event, TokenLogprob};
use crate::sampling::TokenProbability;
use crate::stopping::{IndentMatcher, StopMatcher, StopReason};
use menagerie_answers::{AnswerEnd, AnswerParser, AnswerPart, ToolCall};
use std::sync::Arc;

/// The text of an answer. Without a tokenizer there is none.
pub(crate) struct AnswerText {
    tokenizer: Option<Arc<dyn Tokenizing>>,
    stream: Option<Box<dyn TextStream + Send>>,
    stop: StopMatcher,
    indent: IndentMatcher,
    /// Tokens that still come before the text is searched for stop strings.
    unstopped: usize,
    parser: AnswerParser,
    /// Finds the end of the reasoning, or a call, for a constraint or a limit of the reasoning: gets all text at once, also what is held back for a
    /// stop string.
    watch: Option<AnswerParser>,
    pub(crate) answer: String,
    pub(crate) reasoning: String,
    /// Complete calls.
    pub(crate) tool_calls: Vec<ToolCall>,
}

impl AnswerText {
    /// An empty text that ends at one of the strings `stop`.
    pub(crate) fn new(tokenizer: Option<Arc<dyn Tokenizing>>, stop: &[String], parser: AnswerParser) -> Self {
        Self {
            stream: tokenizer.as_ref().map(|tokenizer| tokenizer.stream()),
            tokenizer,
            stop: StopMatcher::new(stop),
            indent: IndentMatcher::default(),
            unstopped: 0,
            parser,
            watch: None,
            answer: String::new(),
            reasoning: String::new(),
            tool_calls: Vec::new(),
        }
    }

    /// The same, with [`Self::left_reasoning`], [`Self::reasoning_close`] and [`Self::begun_call`] if `watched`.
    pub(crate) fn with_watch(self, watched: bool) -> Self {
        Self { watch: watched.then(|| self.parser.clone()), ..self }
    }

    /// The same; stop strings in the text of the first `tokens` tokens do not end it, and a line with an indentation below
    /// `indent` does.
    pub(crate) fn with_limits(self, tokens: usize, indent: usize) -> Self {
        Self { unstopped: tokens, indent: IndentMatcher::new(indent), ..self }
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

    /// Adds a token. Returns why it ends the text: a stop string, or the indentation of a line.
    pub(crate) fn push(
        &mut self,
        id: u32,
        sink: &mut dyn FnMut(Event),
    ) -> Result<Option<StopReason>, GenerateError> {
        let Some(stream) = &mut self.stream else { return Ok(None) };
        let mut text = stream.push(id)?;
        // The markers of some models are control tokens, which have no text in the stream.
        let control = self.tokenizer.as_ref().and_then(|tokenizer| tokenizer.control_text(id));
        if let Some(tag) = control.filter(|tag| text.is_empty() && self.parser.is_marker(tag)) {
            text = tag;
        }
        if let Some(watch) = &mut self.watch {
            watch.push(&text);
        }
        let (mut shown, mut reason) = (text, None);
        if self.unstopped > 0 {
            self.unstopped -= 1;
        } else {
            let matched = self.stop.push(&shown);
            (shown, reason) = (matched.text, matched.stop_string.map(StopReason::StopString));
        }
        if let Some(end) = self.indent.push(&shown) {
            shown.truncate(end);
            reason = Some(StopReason::Indentation);
        }
        let parts = self.parser.push(&shown);
        self.emit(parts, sink);
        if reason.is_some() {
            let rest = self.parser.finish(AnswerEnd::Cut);
            self.emit(rest, sink);
        }
        Ok(reason)
    }

    /// Whether the reasoning that the text began with has ended with the newest token `id`.
    ///
    /// # Errors
    /// The token also begins the answer.
    pub(crate) fn left_reasoning(&self, id: u32) -> Result<bool, ConstraintError> {
        let Some(watch) = self.watch.as_ref().filter(|watch| !watch.is_in_reasoning()) else {
            return Ok(false);
        };
        // The end of the token may be a part of a character, which is still held back.
        match watch.is_before_answer() && !self.piece(id).contains(char::REPLACEMENT_CHARACTER) {
            true => Ok(true),
            false => Err(ConstraintError::ReasoningEnd { token: id }),
        }
    }

    /// The tag that ends the reasoning in which the text so far ends; it must be watched.
    pub(crate) fn reasoning_close(&self) -> Option<&str> {
        self.watch.as_ref()?.reasoning_close()
    }

    /// If the newest token begins a call outside of reasoning: the text of the call so far.
    pub(crate) fn begun_call(&self) -> Option<&str> {
        self.watch.as_ref()?.begun_call()
    }

    /// Emits what was held back; all text from now on is the answer, also text that looks like a tag of reasoning. It
    /// does nothing if the answer has begun.
    pub(crate) fn begin_answer(&mut self, sink: &mut dyn FnMut(Event)) {
        if self.watch.is_none() {
            return;
        }
        let held = self.stop.finish();
        let parts = self.parser.push(&held);
        self.emit(parts, sink);
        self.parser = AnswerParser::of_text();
        self.watch = None;
    }

    /// If the text of the answer has begun, all text from now on is the answer.
    pub(crate) fn stay_in_text(&mut self, sink: &mut dyn FnMut(Event)) {
        if self.watch.is_none() || !self.parser.is_in_text() {
            return;
        }
        let rest = self.parser.finish(AnswerEnd::Model);
        self.emit(rest, sink);
        self.parser = AnswerParser::of_text();
        self.watch = None;
    }

    /// Emits the text that was held back; `end` is how the answer ended.
    pub(crate) fn finish(&mut self, end: AnswerEnd, sink: &mut dyn FnMut(Event)) {
        let Some(stream) = &mut self.stream else { return };
        let mut text = self.stop.push(&stream.finish()).text;
        text.push_str(&self.stop.finish());
        if let Some(end) = self.indent.push(&text) {
            text.truncate(end);
        }
        let mut parts = self.parser.push(&text);
        parts.extend(self.parser.finish(end));
        self.emit(parts, sink);
    }

    fn emit(&mut self, parts: Vec<AnswerPart>, sink: &mut dyn FnMut(Event)) {
        for part in parts {
            sink(match part {
                AnswerPart::Text(text) => {
                    self.answer.push_str(&text);
                    Event::Text(text)
                }
                AnswerPart::Reasoning(text) => {
                    self.reasoning.push_str(&text);
                    Event::Reasoning(text)
                }
                AnswerPart::CallBegin { index, id, name } => Event::CallBegin { index, id, name },
                AnswerPart::CallArguments { index, text } => Event::CallArguments { index, text },
                AnswerPart::CallEnd { index, call } => {
                    self.tool_calls.push(call);
                    Event::CallEnd { index }
                }
                AnswerPart::Notice(text) => Event::Notice(text),
                _ => continue,
            });
        }
    }
}

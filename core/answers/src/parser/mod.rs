//! [`AnswerParser`]: an answer in pieces to its parts.
//!
//! A reasoning block and markers around text count only before the answer's text; a call counts there, in the text, and
//! in a reasoning block, which it ends. A call counts only if it names a declared tool: everything else that looks like
//! a call stays text. White space next to tags and calls is dropped.

mod argument;
mod call_reader;
mod object;
mod pair;
mod purpose;

#[cfg(test)]
mod tests;

use crate::literal::{FixedText, MOST_SPACE, Match, first_match, overlap, trailing_space};
use crate::part::{AnswerEnd, AnswerPart, push_text};
use crate::pattern::Step;
use crate::syntax::AnswerSyntax;
use call_reader::{CallReader, ReaderStep};

/// The most characters that are added at once, so that a long text takes time in proportion to its length.
const PIECE: usize = 1024;

/// The position in an answer.
#[derive(Clone, Debug)]
enum AnswerPlace {
    /// Only white space so far (since the beginning, or since the end of a block).
    Before,
    /// In the block of this pair; whether text was released yet.
    Reasoning(usize, bool),
    /// In text; up to the closing marker of this pair, if any.
    Content(Option<usize>),
    /// In a call, which began at that place.
    Call(Box<CallReader>, CallSurroundings),
    /// After a call.
    Between,
}

/// The place in which a call begins.
#[derive(Clone, Copy, Debug)]
enum CallSurroundings {
    Reasoning(usize),
    Content(Option<usize>),
}

/// Splits an answer that arrives in pieces. Text that may be part of a marker is held back. It holds back no more than
/// the texts of the formats, some white space, the arguments of one call, and an object until its name is known.
#[derive(Clone, Debug)]
pub struct AnswerParser {
    syntax: AnswerSyntax,
    place: AnswerPlace,
    held: String,
    after_block: bool,
    /// The number of calls that have begun.
    calls: usize,
    /// The texts with which a call begins in the middle of text.
    starts: Vec<String>,
    /// Whether a call counts in a reasoning block.
    reasoning_calls: bool,
    /// Whether nothing but calls can follow the reasoning.
    only_calls: bool,
    /// The text from the beginning of a call on that began with the newest text, outside of reasoning.
    begun_call: Option<String>,
}

impl AnswerParser {
    /// A parser at the beginning of an answer.
    pub fn new(syntax: &AnswerSyntax) -> Self {
        let open = syntax.reasoning_open.as_ref();
        let inside = open.and_then(|open| syntax.reasoning.iter().position(|tags| tags == open));
        let markers = !syntax.reasoning.is_empty() || !syntax.content.is_empty() || syntax.calls.is_some();
        let place = match inside {
            Some(index) => AnswerPlace::Reasoning(index, false),
            None if markers => AnswerPlace::Before,
            None => AnswerPlace::Content(None),
        };
        let marked = syntax.calls.iter().filter(|calls| !calls.format.keys().bare);
        let starts = marked.flat_map(|calls| calls.format.start_words()).collect();
        Self {
            syntax: syntax.clone(),
            place,
            held: syntax.begun.clone(),
            after_block: false,
            calls: 0,
            starts,
            reasoning_calls: true,
            only_calls: false,
            begun_call: None,
        }
    }

    /// Whether the text so far ends in text of the answer.
    pub fn is_in_text(&self) -> bool {
        matches!(self.place, AnswerPlace::Content(_))
    }

    /// What surrounds the parts of the answer.
    pub fn syntax(&self) -> &AnswerSyntax {
        &self.syntax
    }

    /// If a call began with the text that was added last, and not in reasoning: the text from its beginning on.
    pub fn begun_call(&self) -> Option<&str> {
        self.begun_call.as_deref()
    }

    /// A parser for which everything is text.
    pub fn of_text() -> Self {
        Self::new(&AnswerSyntax::default())
    }

    /// The opening tags of a reasoning block that may still come.
    pub fn reasoning_openings(&self) -> impl Iterator<Item = &str> {
        let may_come = matches!(self.place, AnswerPlace::Before);
        self.syntax.reasoning.iter().filter(move |_| may_come).map(|tags| tags.open.as_str())
    }

    /// Whether the text so far ends inside a reasoning block.
    pub fn is_in_reasoning(&self) -> bool {
        matches!(self.place, AnswerPlace::Reasoning(..))
    }

    /// The tag that ends the reasoning block in which the text so far ends.
    pub fn reasoning_close(&self) -> Option<&str> {
        match self.place {
            AnswerPlace::Reasoning(index, _) => {
                self.syntax.reasoning.get(index).map(|tags| tags.close.as_str())
            }
            _ => None,
        }
    }

    /// Whether a reasoning block has ended, and only white space followed it.
    pub fn is_before_answer(&self) -> bool {
        matches!(self.place, AnswerPlace::Before) && self.after_block && self.held.trim().is_empty()
    }

    /// Whether it reads calls of tools.
    pub fn reads_calls(&self) -> bool {
        self.syntax.calls.is_some()
    }

    /// Whether a text is part of a marker, so that a control token with this text belongs to the answer.
    pub fn is_marker(&self, text: &str) -> bool {
        self.syntax.is_marker(text)
    }

    /// Adds text. Returns the parts that are decided.
    pub fn push(&mut self, text: &str) -> Vec<AnswerPart> {
        let mut parts = Vec::new();
        let mut rest = text;
        self.begun_call = None;
        while !rest.is_empty() {
            let cut = rest.char_indices().map(|(at, _)| at).nth(PIECE).unwrap_or(rest.len());
            let (piece, after) = rest.split_at(cut);
            self.held.push_str(piece);
            if let Some(begun) = &mut self.begun_call {
                begun.push_str(piece);
            }
            while self.advance(&mut parts) {}
            rest = after;
        }
        parts
    }

    /// Ends the answer; returns the rest of it.
    pub fn finish(&mut self, end: AnswerEnd) -> Vec<AnswerPart> {
        let mut parts = Vec::new();
        let mut held = std::mem::take(&mut self.held);
        let is_cut_call = end == AnswerEnd::Cut && self.drop_begun_call(&mut held);
        match std::mem::replace(&mut self.place, AnswerPlace::Content(None)) {
            AnswerPlace::Reasoning(_, shown) => {
                let text = if shown { held.trim_end() } else { held.trim() };
                push_text(&mut parts, AnswerPart::Reasoning(text.to_owned()));
            }
            AnswerPlace::Before if self.after_block => {
                push_text(&mut parts, AnswerPart::Text(held.trim_start().to_owned()));
            }
            AnswerPlace::Before | AnswerPlace::Content(_) => push_text(&mut parts, AnswerPart::Text(held)),
            AnswerPlace::Between => {
                let rest = held.trim_start();
                let closing = self.syntax.calls.as_ref().map(|calls| calls.format.close().matches(rest));
                if closing != Some(Match::Partial) {
                    push_text(&mut parts, AnswerPart::Text(rest.to_owned()));
                }
            }
            AnswerPlace::Call(mut reader, surroundings) => {
                if let Some(rest) = reader.finish(&held, (end, self.only_calls), &mut parts) {
                    push_text(&mut parts, surroundings.text(rest));
                }
            }
        }
        parts.extend(is_cut_call.then(call_reader::cut_call));
        parts
    }

    /// One step; `true` if there may be another.
    fn advance(&mut self, parts: &mut Vec<AnswerPart>) -> bool {
        match std::mem::replace(&mut self.place, AnswerPlace::Before) {
            AnswerPlace::Before => self.before(),
            AnswerPlace::Reasoning(tags, shown) => self.reasoning(tags, shown, parts),
            AnswerPlace::Content(tags) => self.content(tags, parts),
            AnswerPlace::Between => self.between(),
            AnswerPlace::Call(mut reader, surroundings) => match reader.advance(&mut self.held, parts) {
                ReaderStep::Again => {
                    self.place = AnswerPlace::Call(reader, surroundings);
                    true
                }
                ReaderStep::Wait => {
                    self.place = AnswerPlace::Call(reader, surroundings);
                    false
                }
                ReaderStep::Done => {
                    self.calls += usize::from(reader.has_begun());
                    let is_text = !reader.has_begun();
                    self.place = if is_text { surroundings.after_failure() } else { AnswerPlace::Between };
                    true
                }
                ReaderStep::Failed(reason) => {
                    self.calls += usize::from(reader.has_begun());
                    let raw = reader.fail(&reason, parts);
                    self.place = surroundings.after_failure();
                    push_text(parts, surroundings.text(raw));
                    true
                }
            },
        }
    }

    /// The number of a call that begins now, if one may begin.
    fn next_call(&self) -> Option<usize> {
        let calls = self.syntax.calls.as_ref()?;
        (!calls.format.keys().single || self.calls == 0).then_some(self.calls)
    }

    /// Compares the beginnings of calls with a text.
    fn start_of_call(&self, text: &str, further: bool) -> Match {
        let Some(calls) = self.syntax.calls.as_ref().filter(|_| self.next_call().is_some()) else {
            return Match::No;
        };
        let programs = if further { calls.format.further() } else { calls.format.first() };
        first_match(programs.iter().map(|program| match program.first() {
            Some(Step::Fixed(literal)) if !literal.is_blank() => literal.matches(text),
            _ => match_word("{", text),
        }))
    }

    /// Begins a call at the beginning of the held text; `before` is white space before it.
    fn begin_call(&mut self, before: &str, further: bool, surroundings: CallSurroundings) -> bool {
        let (Some(calls), Some(index)) = (self.syntax.calls.clone(), self.next_call()) else { return false };
        let mut reader = CallReader::new(calls, further, index, before);
        if matches!(surroundings, CallSurroundings::Reasoning(_)) {
            reader.require_declared();
        } else {
            self.begun_call = Some(self.held.clone());
        }
        self.place = AnswerPlace::Call(Box::new(reader), surroundings);
        true
    }

    fn before(&mut self) -> bool {
        if self.after_block {
            self.leading_space();
        }
        let text = self.held.trim_start();
        let space = self.held.len() - text.len();
        if space > MOST_SPACE {
            self.place = AnswerPlace::Content(None);
            return true;
        }
        for (index, tags) in self.syntax.reasoning.iter().enumerate() {
            match match_word(tags.open.trim_end(), text) {
                Match::No => {}
                Match::Partial => return false,
                Match::Full(length) => {
                    self.held.drain(..space + length);
                    self.place = AnswerPlace::Reasoning(index, false);
                    return true;
                }
            }
        }
        for (index, tags) in self.syntax.content.iter().enumerate() {
            match FixedText::new(&tags.open).matches(text) {
                Match::No => {}
                Match::Partial => return false,
                Match::Full(length) => {
                    self.place = if tags.close.is_some() {
                        AnswerPlace::Content(Some(index))
                    } else {
                        AnswerPlace::Before
                    };
                    self.held.drain(..space + length);
                    self.after_block = true;
                    return true;
                }
            }
        }
        match self.start_of_call(text, false) {
            Match::Partial => return false,
            Match::Full(_) => {
                let before = self.leading_space();
                return self.begin_call(&before, false, CallSurroundings::Content(None));
            }
            Match::No if text.is_empty() => return false,
            Match::No => {}
        }
        self.place = AnswerPlace::Content(None);
        true
    }

    fn reasoning(&mut self, index: usize, mut shown: bool, parts: &mut Vec<AnswerPart>) -> bool {
        if !shown {
            self.held.drain(..self.held.len() - self.held.trim_start().len());
        }
        let close = self.syntax.reasoning[index].close.clone();
        let found = self.find(&[close.as_str()], self.reasoning_calls);
        let (end, stop) = match &found {
            Found::Marker(at) => {
                self.release(*at, parts, AnswerPart::Reasoning);
                self.held.drain(..self.held.find(close.as_str()).unwrap_or(0) + close.len());
                self.after_block = true;
                return true;
            }
            Found::Call(at) => (*at, self.start_of_call(&self.held[*at..], false)),
            Found::Nothing(at) => (*at, Match::Partial),
        };
        match stop {
            Match::Full(_) => {
                self.release(end, parts, AnswerPart::Reasoning);
                let before = self.leading_space();
                self.begin_call(&before, false, CallSurroundings::Reasoning(index))
            }
            Match::Partial => {
                shown |= self.release(end, parts, AnswerPart::Reasoning);
                self.place = AnswerPlace::Reasoning(index, shown);
                false
            }
            Match::No => {
                self.release_through(end, parts, AnswerPart::Reasoning);
                self.place = AnswerPlace::Reasoning(index, true);
                true
            }
        }
    }

    fn content(&mut self, tags: Option<usize>, parts: &mut Vec<AnswerPart>) -> bool {
        let close = tags.and_then(|tags| self.syntax.content[tags].close.clone());
        if close.is_none() && (self.starts.is_empty() || self.next_call().is_none()) {
            push_text(parts, AnswerPart::Text(std::mem::take(&mut self.held)));
            self.place = AnswerPlace::Content(tags);
            return false;
        }
        let markers: Vec<&str> = close.iter().map(String::as_str).collect();
        let (end, stop) = match self.find(&markers, true) {
            Found::Marker(at) => {
                let length = close.as_ref().map_or(0, String::len);
                let text: String = self.held.drain(..at).collect();
                push_text(parts, AnswerPart::Text(text));
                self.held.drain(..length);
                self.after_block = true;
                return true;
            }
            Found::Call(at) => (at, self.start_of_call(&self.held[at..], false)),
            Found::Nothing(at) => (at, Match::Partial),
        };
        self.place = AnswerPlace::Content(tags);
        match stop {
            Match::Full(_) => {
                self.release(end, parts, AnswerPart::Text);
                let before = self.leading_space();
                self.begin_call(&before, false, CallSurroundings::Content(tags))
            }
            Match::Partial => {
                self.release(end, parts, AnswerPart::Text);
                false
            }
            Match::No => {
                self.release_through(end, parts, AnswerPart::Text);
                true
            }
        }
    }

    fn between(&mut self) -> bool {
        let text = self.held.trim_start().to_owned();
        let close = self.syntax.calls.as_ref().map(|calls| calls.format.close().clone()).unwrap_or_default();
        if !close.is_blank() {
            match close.matches(&text) {
                Match::No => {}
                Match::Partial => {
                    self.place = AnswerPlace::Between;
                    return false;
                }
                Match::Full(length) => {
                    self.held = text[length..].to_owned();
                    self.after_block = true;
                    return true;
                }
            }
        }
        match self.start_of_call(&text, true) {
            Match::Full(_) => {
                self.held = text;
                return self.begin_call("", true, CallSurroundings::Content(None));
            }
            Match::Partial => {
                self.place = AnswerPlace::Between;
                return false;
            }
            Match::No => {}
        }
        self.held = text;
        self.after_block = true;
        true
    }

    /// The first marker, or beginning of a call if `calls`, in the held text. What may be the beginning of one at its end
    /// is not passed over.
    fn find(&self, markers: &[&str], calls: bool) -> Found {
        let counts = calls && self.next_call().is_some();
        let starts = self.starts.iter().filter(|_| counts).map(String::as_str);
        let words = markers.iter().map(|word| (*word, true)).chain(starts.map(|word| (word, false)));
        let mut first: Option<(usize, bool)> = None;
        let mut partial = self.held.len();
        for (word, marker) in words {
            if let Some(at) = self.held.find(word)
                && first.is_none_or(|(before, _)| at < before)
            {
                first = Some((at, marker));
            }
            partial = partial.min(self.held.len() - overlap(&self.held, word));
        }
        match first {
            Some((at, true)) if at <= partial => Found::Marker(at),
            Some((at, false)) if at <= partial => Found::Call(at),
            _ => Found::Nothing(partial),
        }
    }

    /// Releases the held text up to `end` without the white space before it; returns whether it is any.
    fn release(&mut self, end: usize, parts: &mut Vec<AnswerPart>, part: fn(String) -> AnswerPart) -> bool {
        let end = end - trailing_space(&self.held[..end]);
        let text: String = self.held.drain(..end).collect();
        let released = !text.is_empty();
        push_text(parts, part(text));
        released
    }

    /// Releases the held text up to `end`, and the character there.
    fn release_through(&mut self, end: usize, parts: &mut Vec<AnswerPart>, part: fn(String) -> AnswerPart) {
        let next = self.held[end..].chars().next().map_or(0, char::len_utf8);
        let text: String = self.held.drain(..end + next).collect();
        push_text(parts, part(text));
    }

    /// Removes and returns the white space at the beginning of the held text.
    fn leading_space(&mut self) -> String {
        self.held.drain(..self.held.len() - self.held.trim_start().len()).collect()
    }
}

/// What a search in the held text found.
enum Found {
    /// A marker, at this byte.
    Marker(usize),
    /// The beginning of a call, at this byte.
    Call(usize),
    /// Nothing before this byte, from which the text may be the beginning of one of them.
    Nothing(usize),
}

impl CallSurroundings {
    /// Text there.
    fn text(self, text: String) -> AnswerPart {
        match self {
            Self::Reasoning(_) => AnswerPart::Reasoning(text),
            Self::Content(_) => AnswerPart::Text(text),
        }
    }

    /// The place after text that is no valid call.
    fn after_failure(self) -> AnswerPlace {
        match self {
            Self::Reasoning(tags) => AnswerPlace::Reasoning(tags, true),
            Self::Content(tags) => AnswerPlace::Content(tags),
        }
    }
}

/// Compares a word with the beginning of a text.
fn match_word(word: &str, text: &str) -> Match {
    match text.starts_with(word) {
        true => Match::Full(word.len()),
        false if word.starts_with(text) => Match::Partial,
        false => Match::No,
    }
}

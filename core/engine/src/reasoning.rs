//! [`ReasoningSplitter`]: separates a model's reasoning from its answer.
//!
//! A reasoning block counts only before the answer: an opening tag in the middle of an answer is text. White space
//! next to the tags is dropped.

use crate::stopping::overlap;

/// The tags around a reasoning block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReasoningTags {
    /// Opening tag.
    pub open: String,
    /// Closing tag.
    pub close: String,
}

impl ReasoningTags {
    /// The pair whose opening tag ends a rendered prompt: the answer then starts inside the block.
    pub fn left_open<'t>(tags: &'t [Self], prompt: &str) -> Option<&'t Self> {
        tags.iter().find(|tags| prompt.trim_end().ends_with(&tags.open))
    }
}

/// A piece of an answer or of the reasoning before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AnswerSegment {
    /// Text of the answer.
    Answer(String),
    /// Text of the reasoning.
    Reasoning(String),
}

/// The position of the splitter.
#[derive(Clone, Debug, PartialEq, Eq)]
enum SplitterState {
    /// Only white space so far (since the beginning, or since the end of a block).
    Before,
    /// In the block of this pair; whether text was released yet.
    Inside(usize, bool),
    /// In the answer; tags are not searched for anymore.
    Answer,
}

/// Splits text that arrives in pieces. Text that may be part of a tag is held back.
#[derive(Clone, Debug)]
pub(crate) struct ReasoningSplitter {
    tags: Vec<ReasoningTags>,
    state: SplitterState,
    held: String,
    after_block: bool,
}

impl ReasoningSplitter {
    /// Everything is the answer.
    pub(crate) fn off() -> Self {
        Self { tags: Vec::new(), state: SplitterState::Answer, held: String::new(), after_block: false }
    }

    /// Searches for blocks of these tags; `open` is the pair that the prompt has opened already.
    pub(crate) fn new(tags: &[ReasoningTags], open: Option<&ReasoningTags>) -> Self {
        let inside = open.and_then(|open| tags.iter().position(|tags| tags == open));
        let state = inside.map_or(SplitterState::Before, |index| SplitterState::Inside(index, false));
        Self { tags: tags.to_vec(), state, held: String::new(), after_block: false }
    }

    /// Whether a text is one of the tags.
    pub(crate) fn is_tag(&self, text: &str) -> bool {
        self.tags.iter().any(|tags| tags.open == text || tags.close == text)
    }

    /// The opening tags of a block that may still come; none in the answer.
    pub(crate) fn openings(&self) -> impl Iterator<Item = &str> {
        let tags = if self.state == SplitterState::Before { self.tags.as_slice() } else { &[] };
        tags.iter().map(|tags| tags.open.as_str())
    }

    /// Whether the text so far ends inside a block.
    pub(crate) fn is_inside(&self) -> bool {
        matches!(self.state, SplitterState::Inside(..))
    }

    /// Whether a block has ended, and only white space followed it.
    pub(crate) fn is_before_answer(&self) -> bool {
        self.state == SplitterState::Before && self.after_block && self.held.trim().is_empty()
    }

    /// Adds text. Returns the pieces that are decided.
    pub(crate) fn push(&mut self, text: &str) -> Vec<AnswerSegment> {
        self.held.push_str(text);
        let mut segments = Vec::new();
        while self.advance(&mut segments) {}
        segments
    }

    /// The text that is still held back, at the end.
    pub(crate) fn finish(&mut self) -> Vec<AnswerSegment> {
        let held = std::mem::take(&mut self.held);
        match self.state {
            SplitterState::Inside(..) => segment(AnswerSegment::Reasoning(held.trim_end().to_owned())),
            SplitterState::Before if self.after_block => {
                segment(AnswerSegment::Answer(held.trim_start().to_owned()))
            }
            SplitterState::Before | SplitterState::Answer => segment(AnswerSegment::Answer(held)),
        }
    }

    /// One step; `true` if there may be another.
    fn advance(&mut self, segments: &mut Vec<AnswerSegment>) -> bool {
        match self.state.clone() {
            SplitterState::Answer => {
                segments.extend(segment(AnswerSegment::Answer(std::mem::take(&mut self.held))));
                false
            }
            SplitterState::Before => self.look_for_block(),
            SplitterState::Inside(index, shown) => self.read_block(index, shown, segments),
        }
    }

    fn look_for_block(&mut self) -> bool {
        let text = self.held.trim_start();
        if let Some(index) = self.tags.iter().position(|tags| text.starts_with(&tags.open)) {
            self.held = text[self.tags[index].open.len()..].to_owned();
            self.state = SplitterState::Inside(index, false);
            return true;
        }
        if text.is_empty() || self.tags.iter().any(|tags| tags.open.starts_with(text)) {
            return false;
        }
        if self.after_block {
            self.held = text.to_owned();
        }
        self.state = SplitterState::Answer;
        true
    }

    fn read_block(&mut self, index: usize, shown: bool, segments: &mut Vec<AnswerSegment>) -> bool {
        if !shown {
            self.held = self.held.trim_start().to_owned();
        }
        let close = &self.tags[index].close;
        if let Some(at) = self.held.find(close.as_str()) {
            let rest = self.held.split_off(at + close.len());
            segments.extend(segment(AnswerSegment::Reasoning(self.held[..at].trim_end().to_owned())));
            self.held = rest;
            self.state = SplitterState::Before;
            self.after_block = true;
            return true;
        }
        // White space at the end may belong to a closing tag that follows.
        let without_tag = self.held.len() - overlap(&self.held, close);
        let keep_from = self.held[..without_tag].trim_end().len();
        let rest = self.held.split_off(keep_from);
        let released = std::mem::replace(&mut self.held, rest);
        self.state = SplitterState::Inside(index, shown || !released.is_empty());
        segments.extend(segment(AnswerSegment::Reasoning(released)));
        false
    }
}

/// The segment, unless it is empty.
fn segment(segment: AnswerSegment) -> Vec<AnswerSegment> {
    match &segment {
        AnswerSegment::Answer(text) | AnswerSegment::Reasoning(text) if text.is_empty() => Vec::new(),
        _ => vec![segment],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(open: &str, close: &str) -> ReasoningTags {
        ReasoningTags { open: open.to_owned(), close: close.to_owned() }
    }

    /// Answer and reasoning of a text that arrives in pieces of `size` characters.
    fn split(text: &str, size: usize, open: bool) -> (String, String) {
        let tags = [("<think>", "</think>"), ("[THINK]", "[/THINK]")].map(|(open, close)| pair(open, close));
        let mut splitter = ReasoningSplitter::new(&tags, open.then_some(&tags[0]));
        let characters: Vec<char> = text.chars().collect();
        let mut segments = Vec::new();
        for piece in characters.chunks(size) {
            segments.extend(splitter.push(&piece.iter().collect::<String>()));
        }
        segments.extend(splitter.finish());
        let (mut answer, mut reasoning) = (String::new(), String::new());
        for segment in segments {
            match segment {
                AnswerSegment::Answer(text) => answer.push_str(&text),
                AnswerSegment::Reasoning(text) => reasoning.push_str(&text),
            }
        }
        (answer, reasoning)
    }

    #[test]
    fn blocks_are_told_apart_however_the_text_arrives() {
        let cases = [
            ("<think>\nhm, so\n</think>\n\nYes.", "Yes.", "hm, so"),
            ("\n<think>a < b </ c</think>d", "d", "a < b </ c"),
            ("[THINK]x[/THINK]y", "y", "x"),
            ("<think>one</think> <think>two</think> three", "three", "onetwo"),
            ("<think></think>\n\nYes.", "Yes.", ""),
            ("Use <think>tags</think>.", "Use <think>tags</think>.", ""),
            (" <thin ice", " <thin ice", ""),
            ("<think>never closed ", "", "never closed"),
            ("  plain", "  plain", ""),
            ("<thi", "<thi", ""),
        ];
        for (text, answer, reasoning) in cases {
            for size in 1..=text.len() {
                assert_eq!(
                    split(text, size, false),
                    (answer.to_owned(), reasoning.to_owned()),
                    "{text:?} by {size}"
                );
            }
        }
    }

    #[test]
    fn a_block_the_prompt_opened_is_read_to_its_end() {
        for size in 1..10 {
            assert_eq!(split("hm\n</think>\nYes", size, true), ("Yes".to_owned(), "hm".to_owned()));
        }
    }

    #[test]
    fn off_changes_nothing() {
        let mut splitter = ReasoningSplitter::off();
        let text = "<think>x</think>";
        assert_eq!(splitter.push(text), [AnswerSegment::Answer(text.to_owned())]);
        assert_eq!(splitter.finish(), []);
    }

    #[test]
    fn a_prompt_may_end_inside_a_block() {
        let tags = [pair("<think>", "</think>")];
        assert!(ReasoningTags::left_open(&tags, "<|assistant|><think>\n").is_some());
        assert!(ReasoningTags::left_open(&tags, "<think></think>").is_none());
    }
}

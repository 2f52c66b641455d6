//! When an answer ends: [`StopReason`]; [`StopConditions`] on tokens and lengths; [`StopMatcher`] on text that arrives
//! in pieces; [`IndentMatcher`] on the indentation of its lines.

use menagerie_answers::overlap;
use std::fmt;

/// Why a generation ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StopReason {
    /// The model ended it with this token, which is not part of the result.
    EndOfGeneration(u32),
    /// The constraint of the request allows no further token: the answer is whole.
    Complete,
    /// This stop string appeared.
    StopString(String),
    /// The request ends it at this token, which is not part of the result.
    StopToken(u32),
    /// A line of the text has less than the requested indentation.
    Indentation,
    /// The maximum number of tokens is reached.
    MaxTokens,
    /// The context is full.
    ContextFull,
    /// The caller cancelled it: with a flag, from the callback of events, or by dropping their iterator.
    Cancelled,
}

impl StopReason {
    /// Its name in JSON: `end`, `complete`, `stop`, `stop-token`, `indentation`, `max-tokens`, `context-full` or
    /// `cancelled`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::EndOfGeneration(_) => "end",
            Self::Complete => "complete",
            Self::StopString(_) => "stop",
            Self::StopToken(_) => "stop-token",
            Self::Indentation => "indentation",
            Self::MaxTokens => "max-tokens",
            Self::ContextFull => "context-full",
            Self::Cancelled => "cancelled",
        }
    }
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EndOfGeneration(id) => write!(f, "the model ended its answer (token {id})"),
            Self::Complete => f.write_str("the answer is complete: its constraint allows nothing more"),
            Self::StopString(string) => write!(f, "stop string {string:?}"),
            Self::StopToken(id) => write!(f, "stop token {id}"),
            Self::Indentation => f.write_str("a line has less than the requested indentation"),
            Self::MaxTokens => f.write_str("the maximum number of tokens is reached"),
            Self::ContextFull => f.write_str("the context is full"),
            Self::Cancelled => f.write_str("cancelled"),
        }
    }
}

/// Conditions on the tokens of an answer.
pub(crate) struct StopConditions {
    ends: Vec<u32>,
    /// Tokens of the request that end it.
    stops: Vec<u32>,
    most: usize,
    context: usize,
}

impl StopConditions {
    /// Stops at one of the tokens `ends`, after `most` tokens of an answer, or when the context is full.
    pub(crate) fn new(ends: Vec<u32>, most: Option<usize>, context: usize) -> Self {
        Self { ends, stops: Vec::new(), most: most.unwrap_or(usize::MAX), context }
    }

    /// The same, and stops at one of the tokens `stops`.
    pub(crate) fn with_stops(self, stops: Vec<u32>) -> Self {
        Self { stops, ..self }
    }

    /// Why there must be no further token after `answered` tokens.
    pub(crate) fn before(&self, answered: usize) -> Option<StopReason> {
        (answered >= self.most).then_some(StopReason::MaxTokens)
    }

    /// Whether a token ends the answer; it is then not part of it.
    pub(crate) fn at(&self, token: u32) -> Option<StopReason> {
        if self.ends.contains(&token) {
            return Some(StopReason::EndOfGeneration(token));
        }
        self.stops.contains(&token).then_some(StopReason::StopToken(token))
    }

    /// Why the newest of `answered` tokens is the last one; the sequence has `held` tokens before it.
    pub(crate) fn after(&self, answered: usize, held: usize) -> Option<StopReason> {
        self.before(answered).or_else(|| (held >= self.context).then_some(StopReason::ContextFull))
    }
}

/// Searches text for stop strings. Text that may be the start of one is held back until that is decided.
#[derive(Clone, Debug, Default)]
pub(crate) struct StopMatcher {
    strings: Vec<String>,
    held: String,
}

/// The result of adding a piece of text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MatcherOutput {
    /// Text that cannot belong to a stop string.
    pub(crate) text: String,
    /// The stop string that was found; the text after it is dropped.
    pub(crate) stop_string: Option<String>,
}

impl StopMatcher {
    /// A matcher for these strings; empty ones are ignored.
    pub(crate) fn new(strings: &[String]) -> Self {
        let strings = strings.iter().filter(|string| !string.is_empty()).cloned().collect();
        Self { strings, held: String::new() }
    }

    /// Adds text. The stop string that starts first wins; of several at the same place, the longest.
    pub(crate) fn push(&mut self, text: &str) -> MatcherOutput {
        self.held.push_str(text);
        let found =
            self.strings.iter().filter_map(|string| self.held.find(string.as_str()).map(|at| (at, string)));
        let first = found.min_by_key(|(at, string)| (*at, std::cmp::Reverse(string.len())));
        if let Some((at, string)) = first {
            let released =
                MatcherOutput { text: self.held[..at].to_owned(), stop_string: Some(string.clone()) };
            self.held.clear();
            return released;
        }
        let keep = self.strings.iter().map(|string| overlap(&self.held, string)).max().unwrap_or(0);
        let rest = self.held.split_off(self.held.len() - keep);
        MatcherOutput { text: std::mem::replace(&mut self.held, rest), stop_string: None }
    }

    /// The text that is still held back, at the end.
    pub(crate) fn finish(&mut self) -> String {
        std::mem::take(&mut self.held)
    }
}

/// Finds the first line, after the first one, with less than an indentation: as `n_indent` of llama.cpp's server.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct IndentMatcher {
    least: usize,
    /// Spaces and tabs of the line so far, while it has nothing else.
    blank: Option<usize>,
}

impl IndentMatcher {
    /// A matcher of lines with fewer than `least` spaces and tabs at their beginning.
    pub(crate) fn new(least: usize) -> Self {
        Self { least, blank: None }
    }

    /// Takes more text. If a line has less indentation: the number of bytes of `text` before the rest of that line.
    pub(crate) fn push(&mut self, text: &str) -> Option<usize> {
        if self.least == 0 {
            return None;
        }
        for (at, byte) in text.bytes().enumerate() {
            match (self.blank, byte) {
                (Some(blank), b' ' | b'\t') => self.blank = Some(blank + 1),
                (Some(blank), _) if blank < self.least => return Some(at),
                (_, b'\n') => self.blank = Some(0),
                _ => self.blank = None,
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_and_lengths_end_an_answer() {
        let stopping = StopConditions::new(vec![7, 9], Some(2), 10);
        assert_eq!((stopping.before(1), stopping.before(2)), (None, Some(StopReason::MaxTokens)));
        assert_eq!((stopping.at(8), stopping.at(9)), (None, Some(StopReason::EndOfGeneration(9))));
        assert_eq!((stopping.after(1, 9), stopping.after(1, 10)), (None, Some(StopReason::ContextFull)));
        assert_eq!(stopping.after(2, 10), Some(StopReason::MaxTokens));
        let stopping = stopping.with_stops(vec![8, 9]);
        assert_eq!(stopping.at(8), Some(StopReason::StopToken(8)));
        assert_eq!((stopping.at(9), stopping.at(1)), (Some(StopReason::EndOfGeneration(9)), None));
        assert_eq!(StopConditions::new(Vec::new(), None, 10).before(usize::MAX - 1), None);
        assert_eq!(StopConditions::new(Vec::new(), Some(0), 10).before(0), Some(StopReason::MaxTokens));
    }

    fn run(strings: &[&str], pieces: &[&str]) -> (Vec<String>, Option<String>, String) {
        let strings: Vec<String> = strings.iter().map(|s| (*s).to_owned()).collect();
        let mut matcher = StopMatcher::new(&strings);
        let mut texts = Vec::new();
        for piece in pieces {
            let released = matcher.push(piece);
            texts.push(released.text);
            if released.stop_string.is_some() {
                return (texts, released.stop_string, matcher.finish());
            }
        }
        (texts, None, matcher.finish())
    }

    #[test]
    fn a_stop_string_over_three_pieces_is_found() {
        let (texts, stopped, rest) = run(&["STOP"], &["one S", "T", "OP two"]);
        assert_eq!(texts, ["one ", "", ""]);
        assert_eq!(stopped.as_deref(), Some("STOP"));
        assert_eq!(rest, "");
    }

    #[test]
    fn a_false_beginning_is_released() {
        let (texts, stopped, rest) = run(&["STOP"], &["S", "TO", "AD", " S"]);
        assert_eq!(texts, ["", "", "STOAD", " "]);
        assert_eq!((stopped, rest.as_str()), (None, "S"));
    }

    #[test]
    fn a_beginning_inside_a_false_beginning_is_held() {
        // After "aaaa" the stop string starts at the third letter.
        let (texts, stopped, _) = run(&["aabc"], &["aa", "aabc"]);
        assert_eq!(texts, ["", "aa"]);
        assert_eq!(stopped.as_deref(), Some("aabc"));
    }

    #[test]
    fn the_first_of_several_wins_and_then_the_longest() {
        assert_eq!(run(&["b", "ab"], &["xab"]), (vec!["x".to_owned()], Some("ab".to_owned()), String::new()));
        assert_eq!(run(&["a", "ab"], &["xab"]), (vec!["x".to_owned()], Some("ab".to_owned()), String::new()));
    }

    /// The cuts are those of llama.cpp's server (`n_indent`): behind the blanks of the line, and none in the first line.
    #[test]
    fn a_line_with_less_indentation_is_found() {
        for (least, text, cut) in [
            (0, "a\nb", None),
            (2, "a\n  b\n\tc", Some("a\n  b\n\t")),
            (2, "a\n  b\n\t\tc", None),
            (1, "a\n\nb", Some("a\n")),
            (4, "a\n   ", None),
            (1, "a\né", Some("a\n")),
        ] {
            let mut whole = IndentMatcher::new(least);
            assert_eq!(whole.push(text).map(|at| &text[..at]), cut, "{text:?}");
            // However the text is cut, the place is the same.
            let (mut pieces, mut before) = (IndentMatcher::new(least), 0);
            let found = text.split_inclusive(|_| true).find_map(|piece| {
                let at = pieces.push(piece).map(|at| before + at);
                before += piece.len();
                at
            });
            assert_eq!(found.map(|at| &text[..at]), cut, "{text:?}");
        }
    }

    #[test]
    fn characters_of_several_bytes_are_not_cut() {
        let (texts, _, rest) = run(&["é!"], &["caf", "é", "?"]);
        assert_eq!(texts, ["caf", "", "é?"]);
        assert_eq!(rest, "");
        assert_eq!(run(&["日本"], &["日", "本"]).1.as_deref(), Some("日本"));
    }

    #[test]
    fn without_stop_strings_nothing_is_held() {
        assert_eq!(run(&[""], &["a", "b"]), (vec!["a".to_owned(), "b".to_owned()], None, String::new()));
    }
}

//! [`AnswerFold`]: the events of an answer as changes of it. A stream sends the changes, and a whole answer is their sum.

use menagerie::engine::Event;
use menagerie_openai::AnswerToken;
use std::collections::BTreeSet;
use std::time::Instant;

/// A change of an answer.
#[derive(Clone, Debug)]
pub(crate) enum AnswerDelta {
    /// More of the prompt was computed, at this time. The number of its tokens that need not be computed.
    Prompt { cached: usize, at: Instant },
    /// More text, with the tokens that it consists of, if log probabilities are requested.
    Text { text: String, tokens: Vec<AnswerToken> },
    /// The token that ended the answer, if log probabilities are requested: it has no text.
    EndToken(AnswerToken),
    /// More reasoning.
    Reasoning(String),
    /// A call of a tool begins.
    CallBegin { index: usize, id: String, name: String },
    /// More of its arguments.
    CallArguments { index: usize, text: String },
    /// It is complete.
    CallEnd { index: usize },
}

/// The events of one answer so far.
#[derive(Debug, Default)]
pub(crate) struct AnswerFold {
    /// Tokens of the prompt with log probabilities.
    pub(crate) prompt: Vec<AnswerToken>,
    /// Tokens whose text has not been released.
    held: Vec<AnswerToken>,
    /// Tokens since the last change.
    pending: usize,
    reasoning: usize,
    is_reasoning: bool,
    /// Calls that have arguments.
    with_arguments: BTreeSet<usize>,
}

impl AnswerFold {
    /// Tokens of the reasoning so far.
    pub(crate) fn reasoning_tokens(&self) -> usize {
        self.reasoning + if self.is_reasoning { self.pending } else { 0 }
    }

    /// The changes by an event at this time.
    pub(crate) fn event(&mut self, event: Event, at: Instant) -> Vec<AnswerDelta> {
        match event {
            Event::Prefill { cached, .. } => vec![AnswerDelta::Prompt { cached, at }],
            Event::PromptToken { id, piece, bytes, logprob, top, .. } => {
                self.prompt.push(AnswerToken { id, piece, bytes, logprob, top });
                Vec::new()
            }
            Event::Token { id, piece, bytes, logprob, top } => {
                self.pending += 1;
                if logprob.is_some() {
                    self.held.push(AnswerToken { id, piece, bytes, logprob, top });
                }
                Vec::new()
            }
            Event::EndToken { id, logprob, top, .. } => {
                vec![AnswerDelta::EndToken(AnswerToken::without_text(id, logprob, top))]
            }
            Event::Reasoning(text) => {
                self.reasoning += std::mem::take(&mut self.pending);
                self.is_reasoning = true;
                self.held.clear();
                vec![AnswerDelta::Reasoning(text)]
            }
            Event::Text(text) => {
                self.answers();
                let tokens = tokens_of(&mut self.held, &text);
                vec![AnswerDelta::Text { text, tokens }]
            }
            Event::CallBegin { index, id, name } => {
                self.answers();
                self.held.clear();
                vec![AnswerDelta::CallBegin { index, id, name }]
            }
            Event::CallArguments { index, text } => {
                self.answers();
                self.held.clear();
                self.with_arguments.insert(index);
                vec![AnswerDelta::CallArguments { index, text }]
            }
            Event::CallEnd { index } => {
                let mut changes = Vec::new();
                // Clients parse the arguments: a call without any has an empty object.
                if self.with_arguments.insert(index) {
                    changes.push(AnswerDelta::CallArguments { index, text: "{}".to_owned() });
                }
                changes.push(AnswerDelta::CallEnd { index });
                changes
            }
            _ => Vec::new(),
        }
    }

    fn answers(&mut self) {
        self.pending = 0;
        self.is_reasoning = false;
    }
}

/// Removes the tokens of a text that was released, and those before them: they are markers. Control tokens, which have no
/// bytes, are not part of the text. Later tokens stay, because their text may still be released.
fn tokens_of(held: &mut Vec<AnswerToken>, text: &str) -> Vec<AnswerToken> {
    if text.is_empty() {
        return Vec::new();
    }
    let bytes: Vec<u8> = held.iter().flat_map(|token| token.bytes.iter().copied()).collect();
    let found = bytes.windows(text.len()).position(|window| window == text.as_bytes());
    // A text with characters that replace broken ones is not among the bytes.
    let Some(start) = found else {
        let tokens = std::mem::take(held).into_iter();
        return tokens.filter(|token| !token.bytes.is_empty()).collect();
    };
    let end = start + text.len();
    let (mut at, mut tokens, mut later) = (0, Vec::new(), Vec::new());
    for token in held.drain(..) {
        let (first, last) = (at, at + token.bytes.len());
        at = last;
        if first >= end {
            later.push(token);
        } else if last > start && last > first {
            tokens.push(token);
        }
    }
    *held = later;
    tokens
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(fold: &mut AnswerFold, event: Event) -> Vec<AnswerDelta> {
        fold.event(event, Instant::now())
    }

    fn token(piece: &str) -> Event {
        let (id, bytes, top) = (1, piece.as_bytes().to_vec(), Vec::new());
        Event::Token { id, piece: piece.to_owned(), bytes, logprob: Some(-1.0), top }
    }

    fn pieces(changes: &[AnswerDelta]) -> Vec<&str> {
        match changes {
            [AnswerDelta::Text { tokens, .. }] => tokens.iter().map(|token| token.piece.as_str()).collect(),
            _ => panic!("{changes:?}"),
        }
    }

    #[test]
    fn log_probabilities_go_with_their_text() {
        let mut fold = AnswerFold::default();
        for piece in ["<think>", "hm", "</think>", "Yes", " and", " EN", "D"] {
            assert!(heard(&mut fold, token(piece)).is_empty());
            if piece == "hm" {
                assert_eq!(heard(&mut fold, Event::Reasoning("hm".to_owned())).len(), 1);
            }
        }
        // The marker is left out, and what may be a stop string stays.
        assert_eq!(pieces(&heard(&mut fold, Event::Text("Yes and".to_owned()))), ["Yes", " and"]);
        assert_eq!(pieces(&heard(&mut fold, Event::Text(" EN".to_owned()))), [" EN"]);
        assert_eq!((fold.reasoning_tokens(), fold.held.len()), (2, 1));
    }

    /// However the text is cut, a token without bytes is not among its tokens.
    #[test]
    fn control_tokens_are_left_out() {
        let control = || Event::Token {
            id: 0,
            piece: "<unk>".to_owned(),
            bytes: Vec::new(),
            logprob: Some(-1.0),
            top: Vec::new(),
        };
        for cut in [false, true] {
            let mut fold = AnswerFold::default();
            heard(&mut fold, token("a"));
            let mut shown = Vec::new();
            if cut {
                shown.extend(
                    pieces(&heard(&mut fold, Event::Text("a".to_owned()))).into_iter().map(str::to_owned),
                );
            }
            heard(&mut fold, control());
            heard(&mut fold, token("b"));
            let text = if cut { "b" } else { "ab" };
            shown.extend(
                pieces(&heard(&mut fold, Event::Text(text.to_owned()))).into_iter().map(str::to_owned),
            );
            assert_eq!(shown, ["a", "b"]);
        }
    }

    #[test]
    fn a_character_of_two_tokens_has_both() {
        let mut fold = AnswerFold::default();
        for bytes in [vec![0xC3], vec![0xA9]] {
            let event =
                Event::Token { id: 1, piece: "\u{fffd}".to_owned(), bytes, logprob: Some(-1.0), top: vec![] };
            heard(&mut fold, event);
        }
        assert_eq!(pieces(&heard(&mut fold, Event::Text("é".to_owned()))).len(), 2);
    }

    #[test]
    fn a_call_without_arguments_has_an_empty_object() {
        let mut fold = AnswerFold::default();
        let (id, name) = ("c".to_owned(), "f".to_owned());
        heard(&mut fold, Event::CallBegin { index: 0, id, name });
        let changes = heard(&mut fold, Event::CallEnd { index: 0 });
        assert!(
            matches!(&changes[..], [AnswerDelta::CallArguments { text, .. }, AnswerDelta::CallEnd { .. }] if text == "{}")
        );
    }
}

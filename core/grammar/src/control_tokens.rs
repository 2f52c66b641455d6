//! [`ControlTokens`]: the tokens of a model that are not text, by their names.

use llguidance::toktrie::TokEnv;
use menagerie_engine::Tokenizing;
use std::cmp::Reverse;

/// A part of a text in which the names of control tokens stand for these tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MarkerPart<'t> {
    /// Text.
    Text(&'t str),
    /// A token by its number.
    Token(u32),
    /// A token that ends an answer.
    End,
}

/// Names and numbers of the tokens that are not text.
pub(crate) struct ControlTokens {
    names: Vec<(String, u32)>,
    ends: Vec<u32>,
}

impl ControlTokens {
    pub(crate) fn new(tokenizer: &dyn Tokenizing) -> Self {
        let ends = tokenizer.end_of_generation().to_vec();
        let name = |id: u32| match tokenizer.control_text(id) {
            None if ends.contains(&id) => Some(tokenizer.piece(id)),
            name => name,
        };
        let names = (0..tokenizer.vocabulary() as u32).filter_map(|id| Some((name(id)?, id)));
        Self { names: names.filter(|(name, _)| !name.is_empty()).collect(), ends }
    }

    /// The parts of a text: at each place the longest name, and of equal names the first token.
    pub(crate) fn parts<'t>(&self, text: &'t str) -> Vec<MarkerPart<'t>> {
        let mut parts = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            let places = self.names.iter().filter_map(|(name, id)| Some((rest.find(name)?, name, *id)));
            let next = places.min_by_key(|(at, name, id)| (*at, Reverse(name.len()), *id));
            let Some((at, name, id)) = next else {
                parts.push(MarkerPart::Text(rest));
                break;
            };
            if at > 0 {
                parts.push(MarkerPart::Text(&rest[..at]));
            }
            parts.push(if self.ends.contains(&id) { MarkerPart::End } else { MarkerPart::Token(id) });
            rest = &rest[at + name.len()..];
        }
        parts
    }

    /// The tokens of a text that is already written; `None` if no tokens have exactly its bytes, or if an end is in it.
    pub(crate) fn tokens_of(&self, text: &str, vocabulary: &TokEnv) -> Option<Vec<u32>> {
        let mut tokens = Vec::new();
        for part in self.parts(text) {
            match part {
                MarkerPart::End => return None,
                MarkerPart::Token(id) => tokens.push(id),
                MarkerPart::Text(text) => {
                    let ids = vocabulary.tokenize_bytes(text.as_bytes());
                    let trie = vocabulary.tok_trie();
                    let bytes: Vec<u8> = ids.iter().flat_map(|id| trie.token(*id)).copied().collect();
                    if bytes != text.as_bytes() {
                        return None;
                    }
                    tokens.extend(ids);
                }
            }
        }
        Some(tokens)
    }
}

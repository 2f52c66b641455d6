//! [`ReasoningOpenings`]: the tokens with which a model begins to reason.

use crate::capability::Tokenizing;
use std::collections::HashMap;

/// For opening tags of reasoning, the tokens that are exactly such a tag; found once for each tag.
#[derive(Default)]
pub(crate) struct ReasoningOpenings(HashMap<String, Vec<u32>>);

impl ReasoningOpenings {
    /// The tokens that are exactly one of these tags.
    pub(crate) fn tokens<'t>(
        &mut self,
        tokenizer: &dyn Tokenizing,
        tags: impl Iterator<Item = &'t str>,
    ) -> Vec<u32> {
        let mut tokens = Vec::new();
        for tag in tags {
            let known = self.0.entry(tag.to_owned()).or_insert_with(|| tokens_of(tokenizer, tag));
            tokens.extend_from_slice(known);
        }
        tokens
    }
}

fn tokens_of(tokenizer: &dyn Tokenizing, tag: &str) -> Vec<u32> {
    let control = |id: &u32| tokenizer.is_control(*id) && tokenizer.control_text(*id).as_deref() == Some(tag);
    let mut tokens: Vec<u32> = (0..tokenizer.vocabulary() as u32).filter(control).collect();
    // A tag that is no control token is found as text.
    if let Ok([id]) = tokenizer.encode(tag).as_deref()
        && tokenizer.bytes(*id) == tag.as_bytes()
    {
        tokens.push(*id);
    }
    tokens
}

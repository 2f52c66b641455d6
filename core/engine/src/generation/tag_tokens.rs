//! [`TagTokens`]: the tokens of tags and markers.

use crate::capability::Tokenizing;
use std::collections::HashMap;

/// Tokens of opening tags and other markers; found once for each.
#[derive(Default)]
pub(crate) struct TagTokens {
    openings: HashMap<String, Vec<Vec<u32>>>,
    markers: HashMap<String, Option<Vec<u32>>>,
}

impl TagTokens {
    /// The ways in which a model may write one of these tags: the tokens that are exactly such a tag; and the tokens of a
    /// tag that has a control token beside text.
    pub(crate) fn openings<'t>(
        &mut self,
        tokenizer: &dyn Tokenizing,
        tags: impl Iterator<Item = &'t str>,
    ) -> Vec<Vec<u32>> {
        let mut all = Vec::new();
        for tag in tags {
            let known = self.openings.entry(tag.to_owned()).or_insert_with(|| openings_of(tokenizer, tag));
            all.extend_from_slice(known);
        }
        all
    }

    /// The tokens of a marker; `None` if no tokens write exactly this text.
    pub(crate) fn marker(&mut self, tokenizer: &dyn Tokenizing, text: &str) -> Option<Vec<u32>> {
        if text.is_empty() {
            return Some(Vec::new());
        }
        let known = self.markers.entry(text.to_owned());
        known.or_insert_with(|| marker_of(tokenizer, text).map(|(tokens, _)| tokens)).clone()
    }
}

fn openings_of(tokenizer: &dyn Tokenizing, tag: &str) -> Vec<Vec<u32>> {
    let control = |id: &u32| tokenizer.is_control(*id) && tokenizer.control_text(*id).as_deref() == Some(tag);
    let mut ways: Vec<Vec<u32>> =
        (0..tokenizer.vocabulary() as u32).filter(control).map(|id| vec![id]).collect();
    // A tag that is no control token is found as text.
    if let Ok([id]) = tokenizer.encode(tag).as_deref()
        && tokenizer.bytes(*id) == tag.as_bytes()
    {
        ways.push(vec![*id]);
    }
    if ways.is_empty()
        && let Some((tokens, true)) = marker_of(tokenizer, tag)
    {
        ways.push(tokens);
    }
    ways
}

/// The tokens of a text in which names of control tokens stand for these tokens, and whether there are any.
fn marker_of(tokenizer: &dyn Tokenizing, text: &str) -> Option<(Vec<u32>, bool)> {
    let mut names: Vec<(String, u32)> = (0..tokenizer.vocabulary() as u32)
        .filter_map(|id| Some((tokenizer.control_text(id)?, id)))
        .filter(|(name, _)| !name.is_empty() && text.contains(name))
        .collect();
    // The longest name first; of equal names the first token.
    names.sort_by_key(|(name, id)| (std::cmp::Reverse(name.len()), *id));
    let (mut tokens, mut has_control) = (Vec::new(), false);
    let mut rest = text;
    while !rest.is_empty() {
        let next = names.iter().filter_map(|(name, id)| Some((rest.find(name)?, name, id)));
        let next = next.min_by_key(|(at, name, id)| (*at, std::cmp::Reverse(name.len()), **id));
        let plain = &rest[..next.map_or(rest.len(), |(at, _, _)| at)];
        if !plain.is_empty() {
            let ids = tokenizer.encode(plain).ok()?;
            let bytes: Vec<u8> = ids.iter().flat_map(|id| tokenizer.bytes(*id)).collect();
            if bytes != plain.as_bytes() || ids.iter().any(|id| tokenizer.is_control(*id)) {
                return None;
            }
            tokens.extend(ids);
        }
        let Some((at, name, id)) = next else { break };
        tokens.push(*id);
        has_control = true;
        rest = &rest[at + name.len()..];
    }
    Some((tokens, has_control))
}

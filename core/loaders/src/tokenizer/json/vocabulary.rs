//! The tokens of a `tokenizer.json` in the order of their ids.

use std::collections::{HashMap, HashSet};

use super::super::error::TokenizerError;
use super::super::kind::TokenKind;
use super::super::vocabulary::Vocabulary;
use super::Settings;
use super::file::{AddedToken, File};
use super::part::bad;

/// Maximum number of unused ids between used ones: a list of all is allocated.
const MOST_HOLES: u64 = 1 << 20;

/// Adds the tokens of other files of the folder to those of the file, as transformers does when it opens a folder.
///
/// # Errors
/// A text with two ids.
pub(crate) fn add(file: &mut File, settings: &Settings) -> Result<(), TokenizerError> {
    let mut known: HashMap<String, u64> = HashMap::new();
    for token in &file.added_tokens {
        known.entry(token.content.clone()).or_insert(token.id);
    }
    for token in &settings.added {
        match known.get(&token.content) {
            Some(id) if *id != token.id => {
                return Err(bad(
                    "added_tokens",
                    format!("{:?} has the id {id}, and {} in tokenizer_config.json", token.content, token.id),
                ));
            }
            Some(_) => {}
            None => {
                known.insert(token.content.clone(), token.id);
                file.added_tokens.push(token.clone());
            }
        }
    }
    let tokens = &file.model.vocab;
    let wanted: HashSet<&str> =
        settings.special.iter().map(String::as_str).filter(|text| !known.contains_key(*text)).collect();
    let mut in_model: HashMap<&str, u64> = HashMap::new();
    for (at, id) in tokens.ids.iter().enumerate().filter(|_| !wanted.is_empty()) {
        let text = tokens.texts.get(at);
        if wanted.contains(text) {
            in_model.entry(text).or_insert(*id);
        }
    }
    for text in &settings.special {
        if let Some(id) = in_model.remove(text.as_str()) {
            file.added_tokens.push(AddedToken {
                id,
                content: text.clone(),
                single_word: false,
                lstrip: false,
                rstrip: false,
                normalized: false,
                special: true,
            });
        }
    }
    Ok(())
}

/// The vocabulary: the model's tokens, overridden by the added ones. Ids without a token are unused.
///
/// # Errors
/// Two texts with one id, two ids for one text, or an id far past all others.
pub(crate) fn read(file: &File) -> Result<Vocabulary, TokenizerError> {
    let tokens = &file.model.vocab;
    let listed = tokens.ids.iter().enumerate().map(|(at, id)| (*id, tokens.texts.get(at)));
    let added = file.added_tokens.iter().map(|token| (token.id, token.content.as_str()));
    let count = (tokens.ids.len() + file.added_tokens.len()) as u64;
    let size =
        listed.clone().chain(added.clone()).map(|(id, _)| id.saturating_add(1)).max().unwrap_or_default();
    if size > count + MOST_HOLES {
        let problem = format!("the id {} with {count} tokens in total: most ids would be unused", size - 1);
        return Err(bad("model.vocab", problem));
    }
    let mut places: Vec<Option<&str>> = vec![None; usize::try_from(size).unwrap_or_default()];
    for (id, text) in listed.chain(added) {
        let place = usize::try_from(id).ok().and_then(|id| places.get_mut(id));
        match place {
            Some(Some(known)) if *known != text => {
                let problem = format!("both {known:?} and {text:?} have the id {id}");
                return Err(bad("model.vocab", problem));
            }
            Some(place) => *place = Some(text),
            None => {}
        }
    }
    let mut vocabulary = Vocabulary::of(&places).map_err(|(first, second, text)| {
        bad("model.vocab", format!("{text:?} has the ids {first} and {second}"))
    })?;
    set_kinds(file, &mut vocabulary);
    Ok(vocabulary)
}

fn set_kinds(file: &File, vocabulary: &mut Vocabulary) {
    let model = &file.model;
    if model.byte_fallback == Some(true) {
        for byte in 0..=u8::MAX {
            if let Some(id) = vocabulary.id(&format!("<0x{byte:02X}>")) {
                vocabulary.set_kind(id, TokenKind::Byte);
            }
        }
    }
    for token in &file.added_tokens {
        let kind = if token.special { TokenKind::Control } else { TokenKind::UserDefined };
        if let Some(id) = vocabulary.id(&token.content) {
            vocabulary.set_kind(id, kind);
        }
    }
}

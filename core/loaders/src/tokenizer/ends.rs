//! Which tokens end a generation (llama-vocab.cpp, `special_eog_ids`).

use std::collections::BTreeSet;

use gguf_file::Metadata;

use super::error::TokenizerError;
use super::keys;
use super::kind::TokenKind;
use super::vocabulary::Vocabulary;
use crate::tables::TokenizerTables;

/// All end-of-generation ids of a GGUF file; see [`find`].
///
/// # Errors
/// A key of an unexpected type.
pub(crate) fn of_file(
    metadata: &Metadata,
    vocabulary: &mut Vocabulary,
    eos: Option<u32>,
    tables: &TokenizerTables,
) -> Result<BTreeSet<u32>, TokenizerError> {
    let size = vocabulary.len();
    let mut stated: BTreeSet<u32> = eos.into_iter().collect();
    for key in [keys::EOT, keys::EOM] {
        stated.extend(keys::token_id(metadata, key, size)?);
    }
    if let Some(list) = keys::array(metadata, keys::EOS_LIST)? {
        let ids = list.integers().ok_or_else(|| TokenizerError::BadKey {
            key: keys::EOS_LIST.to_owned(),
            problem: format!("expected an array of integers, found one of {}", list.element_type()),
        })?;
        let inside = |id: &u32| usize::try_from(*id).is_ok_and(|id| id < size);
        stated.extend(ids.filter_map(|id| u32::try_from(id).ok()).filter(inside));
    }
    find(vocabulary, stated, |key| keys::token_id(metadata, key, size), tables)
}

/// All end-of-generation ids, sorted: those in the file, and those known by text; `keyed` gives the token of a
/// fill-in-the-middle key. Tokens that end a generation or control the model become control tokens, whatever their
/// type in the file.
pub(crate) fn find(
    vocabulary: &mut Vocabulary,
    stated: BTreeSet<u32>,
    keyed: impl Fn(&str) -> Result<Option<u32>, TokenizerError>,
    tables: &TokenizerTables,
) -> Result<BTreeSet<u32>, TokenizerError> {
    let mut ends = stated;
    for one in tables.fill_in() {
        if let Some(id) = keyed(&one.key)? {
            ends.insert(id);
        } else if let Some(id) = one.texts.iter().find_map(|text| vocabulary.id(text)) {
            ends.insert(id);
            vocabulary.set_kind(id, TokenKind::Control);
        }
    }
    for text in tables.end_texts() {
        if let Some(id) = vocabulary.id(text) {
            ends.insert(id);
            vocabulary.set_kind(id, TokenKind::Control);
        }
    }
    for id in tables.steering_texts().filter_map(|text| vocabulary.id(text)).collect::<Vec<_>>() {
        vocabulary.set_kind(id, TokenKind::Control);
    }
    take_back(vocabulary, &mut ends, tables);
    Ok(ends)
}

/// Removes texts that have another meaning together with certain others.
fn take_back(vocabulary: &mut Vocabulary, ends: &mut BTreeSet<u32>, tables: &TokenizerTables) {
    let end = |text: &str| vocabulary.id(text).filter(|id| ends.contains(id));
    let holds = |beside: &[Vec<String>]| beside.iter().all(|any| any.iter().any(|text| end(text).is_some()));
    let taken: Vec<(u32, bool)> = tables
        .not_end()
        .filter(|rule| holds(&rule.beside))
        .filter_map(|rule| Some((end(&rule.text)?, rule.plain)))
        .collect();
    for (id, plain) in taken {
        ends.remove(&id);
        if plain {
            vocabulary.set_kind(id, TokenKind::Normal);
        }
    }
}

//! Special tokens by name and by id: `tokenizer_config.json`, `special_tokens_map.json`, and the ids of the other files.

use std::collections::HashSet;

use serde_json::Value;

use super::document::Document;
use crate::loader::LoadError;
use crate::tokenizer::json::file::AddedToken;
use crate::tokenizer::json::{Adds, Settings, TokenReference};

const ONE_EACH: [&str; 7] =
    ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"];
const LISTS: [&str; 2] = ["additional_special_tokens", "extra_special_tokens"];

/// The special tokens that the files define; `ids` in order of precedence.
///
/// # Errors
/// A token that is not a string, or an invalid id.
pub(super) fn settings(
    tokenizer: &Document,
    map: &Document,
    ids: &[&Document],
) -> Result<Settings, LoadError> {
    let named = |field: &str| -> Result<Option<String>, LoadError> {
        for document in [tokenizer, map] {
            if let Some(value) = document.get(field) {
                return content(document, field, value).map(Some);
            }
        }
        Ok(None)
    };
    let mut special = Vec::new();
    for field in ONE_EACH {
        special.extend(named(field)?);
    }
    for field in LISTS {
        special.extend(listed(tokenizer, field)?);
        special.extend(listed(map, field)?);
    }
    let token = |text: &str, id: &str| -> Result<Option<TokenReference>, LoadError> {
        let named = named(text)?.map(TokenReference::Text);
        Ok(named.or(all_ids(ids, id)?.first().map(|id| TokenReference::Id(*id))))
    };
    let (bos, eos) = (tokenizer.flag("add_bos_token")?, tokenizer.flag("add_eos_token")?);
    let adds = (bos.is_some() || eos.is_some())
        .then(|| Adds { bos: bos.unwrap_or(false), eos: eos.unwrap_or(false) });
    Ok(Settings {
        added: added(tokenizer)?,
        special,
        bos: token("bos_token", "bos_token_id")?,
        eos: token("eos_token", "eos_token_id")?,
        adds,
        unknown: named("unk_token")?,
        pad: named("pad_token")?,
        ends: all_ids(ids, "eos_token_id")?,
    })
}

/// The text of a token: a string, or an object with `content`.
fn content(document: &Document, field: &str, value: &Value) -> Result<String, LoadError> {
    let text = value.as_str().or_else(|| value.get("content").and_then(Value::as_str));
    text.map(str::to_owned).ok_or_else(|| document.wrong(field, "a token, or an object with `content`"))
}

/// Tokens of a list, or of an object whose keys are names.
fn listed(document: &Document, field: &str) -> Result<Vec<String>, LoadError> {
    match document.get(field) {
        None => Ok(Vec::new()),
        Some(Value::Array(list)) => list.iter().map(|value| content(document, field, value)).collect(),
        Some(Value::Object(fields)) => fields.values().map(|value| content(document, field, value)).collect(),
        Some(_) => Err(document.wrong(field, "a list of tokens")),
    }
}

/// `added_tokens_decoder`: objects by id.
fn added(document: &Document) -> Result<Vec<AddedToken>, LoadError> {
    const FIELD: &str = "added_tokens_decoder";
    let Some(value) = document.get(FIELD) else {
        return Ok(Vec::new());
    };
    let wrong = || document.wrong(FIELD, "an object of tokens by id");
    let mut tokens = Vec::new();
    for (id, value) in value.as_object().ok_or_else(wrong)? {
        let flag = |field: &str| value.get(field).and_then(Value::as_bool).unwrap_or(false);
        tokens.push(AddedToken {
            id: id.parse().map_err(|_| wrong())?,
            content: content(document, FIELD, value)?,
            single_word: flag("single_word"),
            lstrip: flag("lstrip"),
            rstrip: flag("rstrip"),
            normalized: flag("normalized"),
            special: flag("special"),
        });
    }
    Ok(tokens)
}

/// The ids of a field in all files, including the text part of a multimodal model.
fn all_ids(documents: &[&Document], field: &str) -> Result<Vec<u32>, LoadError> {
    let (mut ids, mut known) = (Vec::new(), HashSet::new());
    for document in documents {
        let own = document.get(field);
        let inner = document.get("text_config").and_then(|config| config.get(field));
        for value in own.into_iter().chain(inner).filter(|value| !value.is_null()) {
            let list = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
            for id in list {
                let id = id.as_u64().and_then(|id| u32::try_from(id).ok());
                let id = id.ok_or_else(|| document.wrong(field, "a token id, or a list of token ids"))?;
                if known.insert(id) {
                    ids.push(id);
                }
            }
        }
    }
    Ok(ids)
}

//! The metadata keys of tokenizers (gguf.md; llama-arch.cpp, `LLM_KV_TOKENIZER_*`) and how to read them.

use gguf_file::{ArrayView, Metadata, Value};

use super::error::TokenizerError;

pub(crate) const MODEL: &str = "tokenizer.ggml.model";
pub(crate) const PRE: &str = "tokenizer.ggml.pre";
pub(crate) const TOKENS: &str = "tokenizer.ggml.tokens";
pub(crate) const TOKEN_TYPE: &str = "tokenizer.ggml.token_type";
pub(crate) const SCORES: &str = "tokenizer.ggml.scores";
pub(crate) const MERGES: &str = "tokenizer.ggml.merges";
pub(crate) const BOS: &str = "tokenizer.ggml.bos_token_id";
pub(crate) const EOS: &str = "tokenizer.ggml.eos_token_id";
/// A list of them, as Ollama's converter writes it.
pub(crate) const EOS_LIST: &str = "tokenizer.ggml.eos_token_ids";
pub(crate) const EOT: &str = "tokenizer.ggml.eot_token_id";
pub(crate) const EOM: &str = "tokenizer.ggml.eom_token_id";
pub(crate) const UNKNOWN: &str = "tokenizer.ggml.unknown_token_id";
pub(crate) const PAD: &str = "tokenizer.ggml.padding_token_id";
pub(crate) const ADD_BOS: &str = "tokenizer.ggml.add_bos_token";
pub(crate) const ADD_EOS: &str = "tokenizer.ggml.add_eos_token";
pub(crate) const ADD_SPACE_PREFIX: &str = "tokenizer.ggml.add_space_prefix";
pub(crate) const REMOVE_EXTRA_WHITESPACES: &str = "tokenizer.ggml.remove_extra_whitespaces";

pub(crate) const CHARACTERS: &str = "tokenizer.ggml.precompiled_charsmap";
pub(crate) const LOWERCASE: &str = "tokenizer.ggml.normalizer.lowercase";
pub(crate) const STRIP_ACCENTS: &str = "tokenizer.ggml.normalizer.strip_accents";
/// The spelling of the format.
pub(crate) const SEPARATOR: &str = "tokenizer.ggml.seperator_token_id";
pub(crate) const CLASSIFIER: &str = "tokenizer.ggml.cls_token_id";
pub(crate) const ADD_SEPARATOR: &str = "tokenizer.ggml.add_sep_token";

/// Keys that change the encoding, and that only some algorithms support.
const NOT_DONE: [(&str, &str); 4] = [
    (REMOVE_EXTRA_WHITESPACES, "removing white space"),
    (CHARACTERS, "normalizing characters by a table"),
    (LOWERCASE, "lower-casing text"),
    (STRIP_ACCENTS, "removing accents"),
];

/// Refuses keys that change the encoding and that the algorithm does not support.
///
/// # Errors
/// A key that is true, or a table that is not empty.
pub(crate) fn refuse_unsupported(metadata: &Metadata, done: &[&str]) -> Result<(), TokenizerError> {
    for (key, what) in NOT_DONE.into_iter().filter(|(key, _)| !done.contains(key)) {
        let asked = match metadata.get(key) {
            None | Some(Value::Bool(false)) => false,
            Some(Value::Array(table)) => !table.is_empty(),
            Some(_) => true,
        };
        if asked {
            return Err(TokenizerError::UnsupportedKey { key, what });
        }
    }
    Ok(())
}

/// The bytes of an array of bytes, or `None` if the key is absent or the array empty.
pub(crate) fn bytes(metadata: &Metadata, key: &str) -> Result<Option<Vec<u8>>, TokenizerError> {
    let Some(list) = array(metadata, key)?.filter(|list| !list.is_empty()) else {
        return Ok(None);
    };
    let byte = |value: i64| u8::try_from(value).or_else(|_| i8::try_from(value).map(|byte| byte as u8)).ok();
    let bytes = list.integers().and_then(|values| values.map(byte).collect::<Option<Vec<u8>>>());
    bytes.map(Some).ok_or_else(|| TokenizerError::BadKey {
        key: key.to_owned(),
        problem: format!("expected an array of bytes, found one of {}", list.element_type()),
    })
}

/// A string, or `None` if the key is absent.
pub(crate) fn text<'a>(metadata: &'a Metadata, key: &str) -> Result<Option<&'a str>, TokenizerError> {
    read(metadata, key, "a string", |value| value.as_str())
}

/// A flag, or `None` if the key is absent.
pub(crate) fn flag(metadata: &Metadata, key: &str) -> Result<Option<bool>, TokenizerError> {
    read(metadata, key, "a boolean", |value| value.as_bool())
}

/// A token id, or `None` if the key is absent or outside of the vocabulary (llama.cpp ignores such ids too).
pub(crate) fn token_id(metadata: &Metadata, key: &str, size: usize) -> Result<Option<u32>, TokenizerError> {
    let id = read(metadata, key, "an integer", |value| value.as_i64())?;
    Ok(id.and_then(|id| u32::try_from(id).ok()).filter(|id| usize::try_from(*id).is_ok_and(|id| id < size)))
}

/// An array, or `None` if the key is absent.
pub(crate) fn array<'a>(metadata: &'a Metadata, key: &str) -> Result<Option<ArrayView<'a>>, TokenizerError> {
    read(metadata, key, "an array", |value| value.as_array())
}

/// An array of UTF-8 strings, or `None` if the key is absent.
pub(crate) fn strings<'a>(
    metadata: &'a Metadata,
    key: &str,
) -> Result<Option<ArrayView<'a>>, TokenizerError> {
    let Some(list) = array(metadata, key)? else {
        return Ok(None);
    };
    let problem = if list.byte_strings().is_none() {
        format!("expected an array of strings, found one of {}", list.element_type())
    } else if let Some(at) = list.first_invalid_string() {
        format!("string {at} is not UTF-8")
    } else {
        return Ok(Some(list));
    };
    Err(TokenizerError::BadKey { key: key.to_owned(), problem })
}

fn read<'a, T>(
    metadata: &'a Metadata,
    key: &str,
    expected: &str,
    convert: impl Fn(&Value<'a>) -> Option<T>,
) -> Result<Option<T>, TokenizerError> {
    let Some(value) = metadata.get(key) else {
        return Ok(None);
    };
    convert(&value).map(Some).ok_or_else(|| TokenizerError::BadKey {
        key: key.to_owned(),
        problem: format!("expected {expected}, found {}", value.value_type()),
    })
}

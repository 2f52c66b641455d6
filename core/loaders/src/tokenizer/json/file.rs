//! What a `tokenizer.json` holds, as written (the tokenizers crate, `tokenizer/serialization.rs`).

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::lists::{MergeList, TokenList};

/// The file. A field that is not here is refused by name.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct File {
    pub(crate) version: Option<String>,
    /// Cutting long texts is asked for by whoever encodes, and so not done.
    #[serde(default, rename = "truncation")]
    pub(crate) _truncation: IgnoredAny,
    /// As truncation.
    #[serde(default, rename = "padding")]
    pub(crate) _padding: IgnoredAny,
    #[serde(default)]
    pub(crate) added_tokens: Vec<AddedToken>,
    #[serde(default)]
    pub(crate) normalizer: Value,
    #[serde(default)]
    pub(crate) pre_tokenizer: Value,
    #[serde(default)]
    pub(crate) post_processor: Value,
    #[serde(default)]
    pub(crate) decoder: Value,
    pub(crate) model: ModelTable,
}

/// A token that is looked for in a text before anything else.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AddedToken {
    pub(crate) id: u64,
    pub(crate) content: String,
    /// Not inside a word.
    #[serde(default)]
    pub(crate) single_word: bool,
    /// Takes the white space before it along.
    #[serde(default)]
    pub(crate) lstrip: bool,
    /// Takes the white space after it along.
    #[serde(default)]
    pub(crate) rstrip: bool,
    /// Looked for after the text was normalized, and in its normalized form.
    #[serde(default)]
    pub(crate) normalized: bool,
    #[serde(default)]
    pub(crate) special: bool,
}

/// The model's table; which fields it may have depends on its type.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ModelTable {
    #[serde(rename = "type")]
    pub(crate) kind: Option<String>,
    pub(crate) vocab: TokenList,
    pub(crate) merges: Option<MergeList>,
    pub(crate) dropout: Option<f64>,
    pub(crate) unk_token: Option<String>,
    pub(crate) unk_id: Option<u64>,
    pub(crate) continuing_subword_prefix: Option<String>,
    pub(crate) end_of_word_suffix: Option<String>,
    pub(crate) max_input_chars_per_word: Option<u64>,
    pub(crate) fuse_unk: Option<bool>,
    pub(crate) byte_fallback: Option<bool>,
    pub(crate) ignore_merges: Option<bool>,
}

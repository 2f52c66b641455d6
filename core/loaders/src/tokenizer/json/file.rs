//! The contents of a `tokenizer.json` as written (the tokenizers crate, `tokenizer/serialization.rs`).

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::lists::{MergeList, TokenList};

/// The file. An unknown field is an error that names it.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct File {
    pub(crate) version: Option<String>,
    /// Truncation is requested by the caller of an encoding, so it is not applied here.
    #[serde(default, rename = "truncation")]
    pub(crate) _truncation: IgnoredAny,
    /// As for truncation.
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

/// A token that is matched in a text before anything else.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AddedToken {
    pub(crate) id: u64,
    pub(crate) content: String,
    /// Whether it is not matched inside a word.
    #[serde(default)]
    pub(crate) single_word: bool,
    /// Whether it includes the white space before it.
    #[serde(default)]
    pub(crate) lstrip: bool,
    /// Whether it includes the white space after it.
    #[serde(default)]
    pub(crate) rstrip: bool,
    /// Whether it is matched after normalization, in its normalized form.
    #[serde(default)]
    pub(crate) normalized: bool,
    #[serde(default)]
    pub(crate) special: bool,
}

/// The model's table; its possible fields depend on its type.
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

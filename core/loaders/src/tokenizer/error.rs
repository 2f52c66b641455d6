//! Errors of tokenizers, and of text passed to them.

use crate::tables::TableError;
use menagerie_entries::nearest_clause;

/// An error of building or using a tokenizer; `Display` gives the key or the text, the reason and what to do next.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TokenizerError {
    /// A required key is missing.
    #[error("missing key `{key}`: {advice}")]
    MissingKey {
        /// The metadata key.
        key: &'static str,
        /// What to do next.
        advice: &'static str,
    },
    /// A key has an unexpected value.
    #[error(
        "`{key}`: {problem}; the file is damaged or was written by a faulty converter, convert the model again"
    )]
    BadKey {
        /// The metadata key.
        key: String,
        /// What is wrong with the value.
        problem: String,
    },
    /// A key requests an unsupported change of the encoding.
    #[error(
        "`{key}` requires {what}, which is not supported: the tokens would differ from those in training; use token ids"
    )]
    UnsupportedKey {
        /// The metadata key.
        key: &'static str,
        /// The requested feature.
        what: &'static str,
    },
    /// A `tokenizer.json` is damaged.
    #[error("`{place}`: {problem}; the file is damaged; download it again")]
    BadJson {
        /// The place in the file.
        place: String,
        /// What is wrong.
        problem: String,
    },
    /// A `tokenizer.json` requests an unsupported change of the encoding.
    #[error(
        "`{place}` {what}, which is not supported: the tokens would differ from those in training; use a \
         GGUF file of the model, or token ids"
    )]
    UnsupportedJson {
        /// The place in the file.
        place: String,
        /// The unsupported feature, in words.
        what: String,
    },
    /// The table's entry refers to a tokenizer that is not registered.
    #[error(
        "`tokenizer.ggml.model` is `{model}`, which requires the tokenizer `{name}` of a plugin that is not \
         loaded; pass the plugin's folder with --plugin-dir, or use token ids"
    )]
    CodecMissing {
        /// The name in the file.
        model: String,
        /// `author/name:tokenizer`.
        name: String,
    },
    /// A registered tokenizer refused a vocabulary or a text.
    #[error("tokenizer `{name}`: {message}")]
    Codec {
        /// `author/name:tokenizer`.
        name: String,
        /// Its report.
        message: String,
    },
    /// `tokenizer.ggml.model` names an algorithm that is not implemented.
    #[error(
        "`tokenizer.ggml.model` is `{model}`{}, which is not supported (supported: {}); \
         use token ids for prompts of this model",
        what.as_ref().map(|what| format!(" ({what})")).unwrap_or_default(),
        supported.join(", ")
    )]
    UnsupportedModel {
        /// The value of the key.
        model: String,
        /// The meaning of the value, if known.
        what: Option<String>,
        /// The supported values, in backquotes.
        supported: Vec<String>,
    },
    /// `tokenizer.ggml.pre` is not in the tables.
    #[error(
        "unknown pre-tokenizer `{pre}` (`tokenizer.ggml.pre`){}: text would be split in the wrong places; to add it, put \
         the regexes of the model's tokenizer.json into tokenizers/{pre}.toml of a spec folder (--spec-dir DIR), as \
         `menagerie guide tokenizer-tables` describes",
        nearest_clause(near.as_deref())
    )]
    UnknownPre {
        /// The value of the key.
        pre: String,
        /// The nearest known value.
        near: Option<String>,
    },
    /// Neither the file nor the spec names a pre-tokenizer.
    #[error(
        "the file has no `tokenizer.ggml.pre` and the architecture's spec has no [tokenizer] pre: the pre-tokenizer is \
         unknown; convert the model again with a current converter, or name it in the spec"
    )]
    MissingPre,
    /// The regex engine failed on a text.
    #[error(
        "the pre-tokenizer's regex {regex} failed at byte {at} of a text of {length} bytes: {problem}; split the text"
    )]
    Regex {
        /// The number of the regex in the list, from 1.
        regex: usize,
        /// The position in the text, in bytes.
        at: usize,
        /// Length of the text, in bytes.
        length: usize,
        /// The error of the engine.
        problem: String,
    },
    /// The tokenizer expands a text far more than any published one.
    #[error(
        "`{place}` adds more than {most} bytes to a text of {given}: the file is damaged or malicious (it would \
         exhaust memory); get the model's own files, or use token ids"
    )]
    TooLarge {
        /// The part that adds them: a place in the file, or a key.
        place: String,
        /// Maximum number of bytes added to such a text.
        most: usize,
        /// Length of the text, in bytes.
        given: usize,
    },
    /// The tokenizer takes far longer than any published one.
    #[error(
        "encoding a text of {given} bytes takes too long with this tokenizer: the file is damaged or malicious; \
         get the model's own files, or split the text"
    )]
    TooSlow {
        /// Length of the text, in bytes.
        given: usize,
    },
    /// A regex of a pre-tokenizer cannot be compiled.
    #[error("the pre-tokenizer's regex {regex:?}: {problem}; correct it in the table of pre-tokenizers")]
    PreRegex {
        /// The regex.
        regex: String,
        /// The error of the engine.
        problem: String,
    },
    /// A table of pre-tokenizers, texts or tags is invalid.
    #[error(transparent)]
    Table(Box<TableError>),
    /// A text contains a character that the vocabulary cannot express.
    #[error("the vocabulary has no token for {what}; remove it from the text")]
    NoToken {
        /// The character or byte, and its position.
        what: String,
    },
    /// A token id outside of the vocabulary.
    #[error("token id {id} is outside the vocabulary of {size} tokens (0 to {last})", last = size.saturating_sub(1))]
    IdOutOfRange {
        /// The id.
        id: u32,
        /// The number of tokens.
        size: usize,
    },
}

impl From<TableError> for TokenizerError {
    fn from(error: TableError) -> Self {
        Self::Table(Box::new(error))
    }
}

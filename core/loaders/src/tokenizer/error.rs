//! What can be wrong with a tokenizer, or with text given to it.

use crate::tables::TableError;
use menagerie_entries::nearest_clause;

/// An error of building or using a tokenizer; `Display` says the key or the text, the reason and what to do next.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TokenizerError {
    /// A key that every tokenizer of this kind has is not there.
    #[error("the file has no `{key}`: {advice}")]
    MissingKey {
        /// The metadata key.
        key: &'static str,
        /// What to do next.
        advice: &'static str,
    },
    /// A key holds something else than expected.
    #[error(
        "`{key}`: {problem}; the file is damaged or was written by a faulty converter, convert the model again"
    )]
    BadKey {
        /// The metadata key.
        key: String,
        /// What is wrong with the value.
        problem: String,
    },
    /// A key asks for something that changes how text becomes tokens and is not done.
    #[error(
        "`{key}` asks for {what}, which is not supported: text would become other tokens than the model was trained on; give token ids"
    )]
    UnsupportedKey {
        /// The metadata key.
        key: &'static str,
        /// What it asks for.
        what: &'static str,
    },
    /// A `tokenizer.json` is damaged.
    #[error("`{place}`: {problem}; the file is damaged, fetch it again")]
    BadJson {
        /// Where in the file.
        place: String,
        /// What is wrong there.
        problem: String,
    },
    /// A `tokenizer.json` asks for something that changes how text becomes tokens and is not done.
    #[error(
        "`{place}` {what}, which is not supported: text would become other tokens than the model was trained on; use a \
         GGUF file of the model, or give token ids"
    )]
    UnsupportedJson {
        /// Where in the file.
        place: String,
        /// What it is or has, in words.
        what: String,
    },
    /// The table's entry names a tokenizer that nobody registered.
    #[error(
        "`tokenizer.ggml.model` is `{model}`, which is cut by `{name}`, a tokenizer of a plugin that is not loaded; \
         name the plugin's folder with --plugin-dir, or give token ids"
    )]
    CodecMissing {
        /// What the file says.
        model: String,
        /// `author/name:tokenizer`.
        name: String,
    },
    /// A registered tokenizer refused a vocabulary or a text.
    #[error("tokenizer `{name}`: {message}")]
    Codec {
        /// `author/name:tokenizer`.
        name: String,
        /// What it reports.
        message: String,
    },
    /// `tokenizer.ggml.model` names an algorithm that is not implemented.
    #[error(
        "`tokenizer.ggml.model` is `{model}`{}, which is not supported ({} are); \
         prompts for this model must be given as token ids",
        what.as_ref().map(|what| format!(" ({what})")).unwrap_or_default(),
        supported.join(", ")
    )]
    UnsupportedModel {
        /// The value of the key.
        model: String,
        /// What the value stands for, where that is known.
        what: Option<String>,
        /// The values that are supported, in backquotes.
        supported: Vec<String>,
    },
    /// `tokenizer.ggml.pre` is not in the tables.
    #[error(
        "unknown pre-tokenizer `{pre}` (`tokenizer.ggml.pre`){}: text would be cut in the wrong places; to add it, put \
         the regexes of the model's tokenizer.json into tokenizers/{pre}.toml of a spec folder (--spec-dir DIR), as \
         `menagerie guide tokenizer-tables` describes",
        nearest_clause(near.as_deref())
    )]
    UnknownPre {
        /// The value of the key.
        pre: String,
        /// Known values that look like it.
        near: Option<String>,
    },
    /// Neither the file nor the spec names a pre-tokenizer.
    #[error(
        "the file has no `tokenizer.ggml.pre` and the architecture's spec gives none in [tokenizer] pre: how to cut text \
         into words is unknown; convert the model again with a current converter, or name it in the spec"
    )]
    MissingPre,
    /// The regex engine gave up on a text.
    #[error(
        "the pre-tokenizer's regex {regex} gave up at byte {at} of a text of {length} bytes: {problem}; split the text"
    )]
    Regex {
        /// Which of the list, from 1.
        regex: usize,
        /// Where in the text, in bytes.
        at: usize,
        /// Length of the text, in bytes.
        length: usize,
        /// What the engine said.
        problem: String,
    },
    /// The tokenizer makes far more of a text than any published one.
    #[error(
        "`{place}` adds more than {most} bytes to a text of {given}: the file is damaged or made to exhaust memory; get \
         the model's own files, or give token ids"
    )]
    TooLarge {
        /// What adds them: a place in the file, or a key.
        place: String,
        /// How many bytes may be added to such a text.
        most: usize,
        /// Length of the text, in bytes.
        given: usize,
    },
    /// The tokenizer takes far longer than any published one.
    #[error(
        "encoding a text of {given} bytes takes too long with this tokenizer: the file is damaged or made to exhaust \
         time; get the model's own files, or split the text"
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
        /// What the engine said.
        problem: String,
    },
    /// A table of pre-tokenizers, texts or tags is faulty.
    #[error(transparent)]
    Table(Box<TableError>),
    /// A text holds something that the vocabulary cannot express.
    #[error("the vocabulary has no token for {what}; remove it from the text")]
    NoToken {
        /// The character or byte, and where it was found.
        what: String,
    },
    /// A token id past the vocabulary.
    #[error("token id {id} is past the vocabulary of {size} tokens (0 to {last})", last = size.saturating_sub(1))]
    IdOutOfRange {
        /// The id.
        id: u32,
        /// How many tokens there are.
        size: usize,
    },
}

impl From<TableError> for TokenizerError {
    fn from(error: TableError) -> Self {
        Self::Table(Box::new(error))
    }
}

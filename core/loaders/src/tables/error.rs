//! Errors of table files.

use menagerie_entries::nearest_clause;

/// An error of a table file, with its position.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}:{column}: {key}: {fault}")]
pub struct TableError {
    /// The file.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// The key, as `pre[3].split`.
    pub key: String,
    /// What is wrong there.
    pub fault: TableFault,
}

/// What is wrong at a place of a table file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TableFault {
    /// The file cannot be read.
    #[error("cannot be read: {0}")]
    Unreadable(String),
    /// The file is not TOML.
    #[error("not TOML: {0}")]
    Toml(String),
    /// An unknown key.
    #[error("unknown key{}", nearest_clause(near.as_deref()))]
    UnknownKey {
        /// The nearest known key.
        near: Option<String>,
    },
    /// A missing key.
    #[error("missing")]
    Missing,
    /// A value of another type.
    #[error("expected {wanted}, found {found}")]
    Type {
        /// The expected type.
        wanted: &'static str,
        /// The actual type.
        found: &'static str,
    },
    /// An empty string or list.
    #[error("empty; expected {wanted}")]
    Empty {
        /// The expected content.
        wanted: &'static str,
    },
    /// A duplicate within one file.
    #[error("duplicate `{name}`; remove one of them")]
    Twice {
        /// The name.
        name: String,
    },
    /// Another file has a different definition of the same name.
    #[error("{other} has a different definition of `{name}`; remove one of the two{}", if *built_in { ", or pass --allow-shadow to use this one" } else { "" })]
    Conflict {
        /// The name.
        name: String,
        /// The other file.
        other: String,
        /// Whether the other file is built in.
        built_in: bool,
    },
    /// A pre-tokenizer names a list of regexes that does not exist.
    #[error("unknown [split] `{name}`{}", nearest_clause(near.as_deref()))]
    UnknownSplit {
        /// The name.
        name: String,
        /// The nearest known name.
        near: Option<String>,
    },
    /// A vocabulary names an algorithm that does not exist.
    #[error(
        "unknown algorithm `{name}`; expected `spm`, `bpe`, `wordpiece`, `unigram`, `longest`, `cheapest`, or a tokenizer of a plugin (author/name:tokenizer)"
    )]
    UnknownAlgorithm {
        /// The name.
        name: String,
    },
    /// A chat template that cannot be compiled.
    #[error("{problem}")]
    Template {
        /// What is wrong with it.
        problem: String,
    },
    /// A format of calls that cannot be read.
    #[error(transparent)]
    Call(menagerie_answers::CallFormatFault),
    /// A regex that cannot be compiled.
    #[error("regex {regex:?}: {problem}")]
    Regex {
        /// The regex.
        regex: String,
        /// The error of the regex engine.
        problem: String,
    },
}

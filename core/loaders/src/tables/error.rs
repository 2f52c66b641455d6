//! What can be wrong with a table file.

use menagerie_entries::nearest_clause;

/// A fault of a table file, with its place.
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
    /// A key that means nothing there.
    #[error("unknown key{}", nearest_clause(near.as_deref()))]
    UnknownKey {
        /// The nearest known key.
        near: Option<String>,
    },
    /// A key that must be there is not.
    #[error("missing")]
    Missing,
    /// A value of another type.
    #[error("expected {wanted}, found {found}")]
    Type {
        /// The type that is wanted.
        wanted: &'static str,
        /// The type that is there.
        found: &'static str,
    },
    /// An empty text or list.
    #[error("empty; expected {wanted}")]
    Empty {
        /// What is wanted.
        wanted: &'static str,
    },
    /// The same thing twice in one file.
    #[error("`{name}` is there twice; take one of them out")]
    Twice {
        /// The name.
        name: String,
    },
    /// Another file says something else about the same thing.
    #[error("{other} already says something else about `{name}`; take one of the two out{}", if *built_in { ", or pass --allow-shadow to use this one" } else { "" })]
    Conflict {
        /// The name.
        name: String,
        /// The other file.
        other: String,
        /// Whether the other file is part of the program.
        built_in: bool,
    },
    /// A pre-tokenizer names a list of regexes that does not exist.
    #[error("there is no [split] `{name}`{}", nearest_clause(near.as_deref()))]
    UnknownSplit {
        /// The name.
        name: String,
        /// The nearest known name.
        near: Option<String>,
    },
    /// A vocabulary names an algorithm that does not exist.
    #[error(
        "there is no algorithm `{name}`; `spm`, `bpe`, `wordpiece`, `unigram`, `longest` and `cheapest` are known, and those of plugins, author/name:tokenizer"
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
    /// A regex that cannot be compiled.
    #[error("regex {regex:?}: {problem}")]
    Regex {
        /// The regex.
        regex: String,
        /// What the regex engine said.
        problem: String,
    },
}

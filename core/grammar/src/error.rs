//! [`GrammarError`]: why a schema, a regular expression or a grammar cannot constrain an answer.

use menagerie_engine::CallShapeFault;

/// Why a schema, a regular expression or a grammar cannot constrain an answer. It never quotes an answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GrammarError {
    /// A part of a JSON schema is not supported.
    #[error("JSON schema: {keyword} at {at} {reason}", at = place(.at))]
    Schema {
        /// The JSON pointer of the schema that has the keyword.
        at: String,
        /// The keyword, in backticks.
        keyword: String,
        /// Why, and what to do.
        reason: String,
    },
    /// A text is larger than the limit.
    #[error("the {what} has {bytes} bytes, at most {most} are allowed: make it smaller")]
    TooLarge {
        /// `JSON schema`, `regular expression` or `Lark grammar`.
        what: &'static str,
        /// Its bytes.
        bytes: usize,
        /// The limit.
        most: usize,
    },
    /// A text is nested deeper than the limit.
    #[error("the {what} is nested deeper than {most} levels: make it flatter")]
    TooDeep {
        /// `JSON schema`, `regular expression` or `Lark grammar`.
        what: &'static str,
        /// The limit.
        most: usize,
    },
    /// A part of a Lark grammar is not supported.
    #[error("Lark grammar, line {line}: {reason}")]
    Lark {
        /// The line, from 1.
        line: usize,
        /// Why, and what to do.
        reason: String,
    },
    /// It cannot be compiled: a syntax error, a construct that is not supported, or a limit.
    #[error("the {what} cannot be compiled: {reason}")]
    Invalid {
        /// `JSON schema`, `regular expression` or `Lark grammar`.
        what: &'static str,
        /// The reason.
        reason: String,
    },
    /// The parameters of a tool cannot be enforced.
    #[error("tool `{tool}`: {error}")]
    Tool {
        /// The tool.
        tool: String,
        /// Why.
        error: Box<GrammarError>,
    },
    /// The calls of tools cannot be described.
    #[error(transparent)]
    Shape(#[from] CallShapeFault),
    /// A format of calls cannot be constrained with this model.
    #[error("calls in the format `{format}` cannot be constrained: {reason}")]
    Calls {
        /// The format.
        format: String,
        /// Why.
        reason: String,
    },
    /// The request was cancelled while its constraint was compiled.
    #[error("the request was cancelled while its constraint was compiled")]
    Cancelled,
    /// The vocabulary of the model cannot be used.
    #[error("the vocabulary of the model cannot be constrained: {reason}")]
    Vocabulary {
        /// The reason.
        reason: String,
    },
}

fn place(at: &str) -> &str {
    if at.is_empty() { "the root" } else { at }
}

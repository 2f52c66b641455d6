//! [`CallShape`]: the texts that calls of given tools may have in a format, as an expression.

mod argument;
mod calls;
mod fault;
mod members;
mod pairs;
mod python;
mod value;

pub use calls::CallLimits;
pub use fault::CallShapeFault;

use serde_json::Value;

/// The texts that calls may have, as an expression. It is made of the same entry as the parser's programs, and describes
/// only texts that the parser reads as calls of the tools, with arguments that fit their schemas.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum CallShape {
    /// Fixed text of the format. Where it has the name of a control token, the token is written.
    Marker(String),
    /// This text, without control tokens.
    Text(String),
    /// White space, or none.
    Space,
    /// Text that this regular expression matches from beginning to end.
    Regex(String),
    /// Any text up to a fixed text.
    Until(UntilText),
    /// JSON by a schema.
    Json {
        /// The tool to whose parameters the schema belongs.
        tool: String,
        /// The JSON pointer of the schema in the parameters.
        at: String,
        /// The schema.
        schema: Value,
    },
    /// All of these, in this order.
    Sequence(Vec<CallShape>),
    /// One of these.
    OneOf(Vec<CallShape>),
    /// This, or nothing.
    Optional(Box<CallShape>),
    /// Any number of these, or none.
    Repeated(Box<CallShape>),
}

/// Any text up to the first place where `end` is, and that end.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UntilText {
    /// The fewest characters before `space`.
    pub least: u64,
    /// The most characters before `space`; `None`: any number.
    pub most: Option<u64>,
    /// Text before the end.
    pub space: String,
    /// Fixed text of the format, which is not part of the text before it.
    pub end: String,
    /// Whether texts that are JSON of another type than a string are excluded.
    pub is_no_json: bool,
}

impl CallShape {
    /// A literal of a pattern. White space at its edges and in its line breaks may be any or none, as the parser reads it.
    pub(crate) fn literal(text: &str) -> Vec<Self> {
        let mut shapes: Vec<Self> = Vec::new();
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let is_space = first.is_whitespace();
            let end = rest.find(|next: char| next.is_whitespace() != is_space).unwrap_or(rest.len());
            let (run, after) = rest.split_at(end);
            let at_edge = shapes.is_empty() || after.is_empty() || run.contains('\n');
            match shapes.last_mut() {
                _ if is_space && at_edge => shapes.push(Self::Space),
                Some(Self::Marker(before)) => before.push_str(run),
                _ => shapes.push(Self::Marker(run.to_owned())),
            }
            rest = after;
        }
        shapes
    }

    /// Shapes in a sequence; white space beside white space is one.
    pub(crate) fn sequence(shapes: Vec<Self>) -> Self {
        let mut flat: Vec<Self> = Vec::new();
        for shape in shapes {
            let parts = match shape {
                Self::Sequence(parts) => parts,
                other => vec![other],
            };
            for part in parts {
                if !(part == Self::Space && flat.last() == Some(&Self::Space)) {
                    flat.push(part);
                }
            }
        }
        match <[Self; 1]>::try_from(flat) {
            Ok([only]) => only,
            Err(flat) => Self::Sequence(flat),
        }
    }

    /// One of several shapes.
    pub(crate) fn one_of(mut shapes: Vec<Self>) -> Self {
        match (shapes.pop(), shapes.is_empty()) {
            (Some(only), true) => only,
            (last, _) => {
                shapes.extend(last);
                Self::OneOf(shapes)
            }
        }
    }
}

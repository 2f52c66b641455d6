//! [`CallShapeFault`]: why calls of tools cannot be described.

/// Why the calls of a tool cannot be constrained in a format.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CallShapeFault {
    /// There is no tool to call.
    #[error("there is no tool that may be called: name one of the tools")]
    NoTool,
    /// A tool that is not one of the tools.
    #[error("there is no tool `{name}`; the tools are {known}")]
    UnknownTool {
        /// The name.
        name: String,
        /// The names of all tools.
        known: String,
    },
    /// A part of a schema.
    #[error("tool `{tool}`: {part} at {at} {reason}", at = if .at.is_empty() { "the root" } else { .at })]
    Parameters {
        /// The tool.
        tool: String,
        /// The JSON pointer of the schema.
        at: String,
        /// The keyword or the name, in backticks.
        part: String,
        /// Why, and what to do.
        reason: String,
    },
}

/// The place of a schema in the parameters of a tool.
#[derive(Clone, Copy, Debug)]
pub(super) struct SchemaPlace<'p> {
    pub(super) tool: &'p str,
    pub(super) at: &'p str,
}

impl SchemaPlace<'_> {
    pub(super) fn fault(self, part: &str, reason: impl Into<String>) -> CallShapeFault {
        CallShapeFault::Parameters {
            tool: self.tool.to_owned(),
            at: self.at.to_owned(),
            part: format!("`{part}`"),
            reason: reason.into(),
        }
    }

    /// The pointer of a part.
    pub(super) fn below(self, part: &str) -> String {
        format!("{}/{}", self.at, part.replace('~', "~0").replace('/', "~1"))
    }
}

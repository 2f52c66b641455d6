//! [`Notice`]: what must be said at each load.

use std::fmt;

/// Something people should see whenever the model is loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// A spec file replaced another one of the same id.
    Shadowed {
        /// The architecture.
        id: String,
        /// What is used.
        used: String,
        /// What it replaces.
        replaced: String,
    },
    /// A spec that is not built in is used.
    DroppedIn {
        /// The architecture.
        id: String,
        /// Where it is from.
        origin: String,
    },
    /// The context was made smaller than usual, to fit into memory.
    SmallContext {
        /// Tokens of the context.
        context: usize,
        /// Tokens it would have had.
        usual: usize,
    },
    /// The context is larger than trained.
    PastTrained {
        /// Tokens of the context.
        context: usize,
        /// Tokens the model was trained with.
        trained: usize,
    },
    /// What else the file or the spec wants to be said: keys accepted unread, overridden keys, what is not followed.
    Note(String),
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shadowed { id, used, replaced } => {
                write!(f, "architecture {id} is read from {used}, which replaces {replaced}")
            }
            Self::DroppedIn { id, origin } => write!(f, "architecture {id} is read from {origin}"),
            Self::SmallContext { context, usual } => {
                write!(
                    f,
                    "a context of {context} tokens instead of {usual}, to fit into the memory that is free"
                )
            }
            Self::PastTrained { context, trained } => {
                write!(f, "the context of {context} tokens is past the {trained} the model was trained with")
            }
            Self::Note(text) => f.write_str(text),
        }
    }
}

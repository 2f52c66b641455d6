//! [`Notice`]: what every load of a model reports.

use std::fmt;

/// Something that people should see whenever the model is loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// A spec file replaces another one with the same id.
    Shadowed {
        /// The architecture.
        id: String,
        /// The origin that is used.
        used: String,
        /// The origin that it replaces.
        replaced: String,
    },
    /// A spec that is not built in is used.
    DroppedIn {
        /// The architecture.
        id: String,
        /// Its origin.
        origin: String,
    },
    /// The context is smaller than usual, to fit into memory.
    SmallContext {
        /// Tokens of the context.
        context: usize,
        /// Tokens of the usual context.
        usual: usize,
    },
    /// The context is larger than the training context.
    PastTrained {
        /// Tokens of the context.
        context: usize,
        /// Tokens of the training context.
        trained: usize,
    },
    /// Any other notice: accepted keys that nothing reads, overridden keys, recommendations without effect.
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

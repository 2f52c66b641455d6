//! `--pooling HOW`: how the hidden states of a text become one embedding.

use clap::ValueEnum;
use menagerie::model::Pooling;

/// The pooling methods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PoolingArgument {
    /// All token vectors, one after the other
    None,
    /// The mean of all token vectors
    Mean,
    /// The vector of the first token
    Cls,
    /// The vector of the last token
    Last,
}

impl PoolingArgument {
    /// The same as the model's type.
    pub(crate) fn pooling(self) -> Pooling {
        match self {
            Self::None => Pooling::None,
            Self::Mean => Pooling::Mean,
            Self::Cls => Pooling::Cls,
            Self::Last => Pooling::Last,
        }
    }
}

//! `--pooling HOW`: how the rows of a text become one vector.

use clap::ValueEnum;
use menagerie::model::Pooling;

/// The ways to pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PoolingArgument {
    /// All rows, one after the other
    None,
    /// Their mean
    Mean,
    /// The first row
    Cls,
    /// The last row
    Last,
}

impl PoolingArgument {
    /// The way that is meant.
    pub(crate) fn pooling(self) -> Pooling {
        match self {
            Self::None => Pooling::None,
            Self::Mean => Pooling::Mean,
            Self::Cls => Pooling::Cls,
            Self::Last => Pooling::Last,
        }
    }
}

//! [`ClusterError`]: why a node cannot work in its cluster.

/// Why a node cannot work in its cluster. Every message says what to do next.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClusterError {
    /// An option is invalid.
    #[error("{0}")]
    Options(String),
    /// The network failed.
    #[error("{0}")]
    Network(String),
    /// The stages that a head needs are not there.
    #[error("{0}")]
    Incomplete(String),
    /// Stages differ from the head in something that they must have in common.
    #[error("{0}")]
    Different(String),
    /// A stage does not accept the head.
    #[error("{0}")]
    Refused(String),
}

impl ClusterError {
    /// The error of zenoh while doing `what`.
    pub(crate) fn network(what: &str, error: impl std::fmt::Display) -> Self {
        Self::Network(format!("{what}: {error}"))
    }
}

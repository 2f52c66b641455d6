//! [`ServerError`]: why a server does not start.

use std::io;

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// There is nothing to serve.
    #[error("a server needs at least one model")]
    NoModel,
    /// Others could use the server.
    #[error(
        "other machines can reach {address}, and there are no API keys: give a file of keys (--api-key-file), listen on \
         127.0.0.1, or allow everybody (--insecure)"
    )]
    Public {
        /// The address.
        address: String,
    },
    /// The address cannot be used.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: String,
        /// The reason.
        source: io::Error,
    },
    /// Two models have the same name.
    #[error("two models have the name {name}: give them others (--alias, once for each model)")]
    SameName {
        /// The name.
        name: String,
    },
    /// A model cannot be started.
    #[error("{0}")]
    Model(String),
    /// The threads for HTTP cannot be started.
    #[error("cannot start the threads that speak HTTP: {0}")]
    Runtime(io::Error),
}

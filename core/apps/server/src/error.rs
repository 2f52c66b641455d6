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
    /// A model that is not there cannot be kept in memory.
    #[error("--pin {name}: there is no model of this name")]
    Pin {
        /// The name.
        name: String,
    },
    /// The models do not fit into memory together.
    #[error(
        "the models need {needed} of memory together, and they may use {budget}: allow more (--memory), reduce their \
         contexts (-c) or caches (--parallel, --cache-tokens), or name fewer models"
    )]
    Memory {
        /// The memory that they need.
        needed: String,
        /// The memory that they may use.
        budget: String,
    },
    /// The files for TLS cannot be used.
    #[error("{file}: {reason}")]
    Tls {
        /// The file.
        file: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Spans cannot be exported (with the feature `opentelemetry`).
    #[error("cannot export spans to {endpoint} (--otlp, OTEL_EXPORTER_OTLP_ENDPOINT): {reason}")]
    Collector {
        /// The address of the collector.
        endpoint: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A model cannot be started.
    #[error("{0}")]
    Model(String),
    /// The folder of batches cannot be used.
    #[error("cannot use the folder of batches (--batch-dir): {0}")]
    BatchFolder(String),
    /// The threads for HTTP cannot be started.
    #[error("cannot start the threads that speak HTTP: {0}")]
    Runtime(io::Error),
}

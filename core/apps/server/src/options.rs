//! [`ServerOptions`]: the limits of a server, and what it does besides answering.

use crate::api_keys::ApiKeys;
use std::sync::Arc;
use std::time::Duration;

/// Receives the lines of the log.
pub type LogSink = Arc<dyn Fn(&str) + Send + Sync>;

/// The format of the lines of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum LogFormat {
    /// A JSON object.
    #[default]
    Json,
    /// For people.
    Text,
    /// No line.
    Off,
}

/// The options of a server.
#[derive(Clone)]
#[non_exhaustive]
pub struct ServerOptions {
    /// The keys of clients; without keys everybody may use the server.
    pub keys: ApiKeys,
    /// Origins of web pages that may use the server; `*` = all.
    pub origins: Vec<String>,
    /// The most requests of a model that wait beside those that run.
    pub queue: usize,
    /// The most bytes of the body of a request.
    pub body_bytes: usize,
    /// The most time to receive the head of a request, and to receive its body.
    pub read_time: Duration,
    /// How long running requests may go on after the end was requested.
    pub drain: Duration,
    /// Threads that speak HTTP.
    pub http_threads: usize,
    /// Whether a public address without keys is accepted.
    pub insecure: bool,
    /// The format of the log.
    pub log: LogFormat,
    /// Receives the log.
    pub sink: LogSink,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            keys: ApiKeys::default(),
            origins: Vec::new(),
            queue: 256,
            body_bytes: 16 << 20,
            read_time: Duration::from_secs(30),
            drain: Duration::from_secs(30),
            http_threads: 1,
            insecure: false,
            log: LogFormat::Off,
            sink: Arc::new(|_| {}),
        }
    }
}

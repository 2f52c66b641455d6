//! [`ServerOptions`]: the limits of a server, and what it does besides answering.

use crate::api_keys::ApiKeys;
use crate::observer::RequestObserver;
use crate::puller::ModelPuller;
use crate::tls::TlsFiles;
use menagerie::registry::Environment;
use std::path::PathBuf;
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
    /// The file of the keys, which is read again when the server reloads.
    pub key_file: Option<PathBuf>,
    /// Certificate and key; without them connections are not encrypted.
    pub tls: Option<TlsFiles>,
    /// Origins of web pages that may use the server; `*` = all.
    pub origins: Vec<String>,
    /// Names of the server besides `localhost`, if only this machine can reach it.
    pub hosts: Vec<String>,
    /// The architectures that the page shows, and with which specs are checked, if no library of models has them; `None` =
    /// those that are linked.
    pub environment: Option<Environment>,
    /// The most requests of a model that wait beside those that run.
    pub queue: usize,
    /// The most bytes of the body of a request.
    pub body_bytes: usize,
    /// The most time to receive the head of a request, and to receive its body.
    pub read_time: Duration,
    /// The most time of a request, from its head to the end of its answer.
    pub request_time: Option<Duration>,
    /// Whether every client may set the priority of its requests.
    pub allow_priority: bool,
    /// The most bytes of memory for all models; idle ones are dropped for others.
    pub memory: Option<u64>,
    /// After this time without a request a model is dropped, if the library can open it again.
    pub idle: Option<Duration>,
    /// Names of models that are never dropped.
    pub pins: Vec<String>,
    /// How long running requests may go on after the end was requested.
    pub drain: Duration,
    /// The folder for uploaded files and batches; `None`: the server offers neither.
    pub batch_dir: Option<PathBuf>,
    /// The most bytes of a file of a client.
    pub file_bytes: u64,
    /// Downloads models for clients that ask for it; `None`: clients cannot download models.
    pub puller: Option<Arc<dyn ModelPuller>>,
    /// Learns of each request.
    pub observer: Option<Arc<dyn RequestObserver>>,
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
            key_file: None,
            tls: None,
            origins: Vec::new(),
            hosts: Vec::new(),
            environment: None,
            queue: 256,
            body_bytes: 16 << 20,
            read_time: Duration::from_secs(30),
            request_time: None,
            allow_priority: false,
            memory: None,
            idle: None,
            pins: Vec::new(),
            drain: Duration::from_secs(30),
            batch_dir: None,
            file_bytes: 200 << 20,
            puller: None,
            observer: None,
            http_threads: 1,
            insecure: false,
            log: LogFormat::Off,
            sink: Arc::new(|_| {}),
        }
    }
}

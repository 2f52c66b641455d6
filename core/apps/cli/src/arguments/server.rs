//! [`ServerArguments`]: where and for whom a server answers.

use crate::failure::Failure;
use crate::prompt;
use crate::screen::report;
use clap::{Args, ValueEnum};
#[cfg(feature = "opentelemetry")]
use menagerie_server::OtlpExport;
use menagerie_server::{ApiKeys, LogFormat, ServerOptions, TlsFiles};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Formats of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormatArgument {
    /// A JSON object per request
    Json,
    /// A line per request, for people
    Text,
    /// Nothing
    Off,
}

/// A server.
#[derive(Args, Clone, Debug)]
pub(crate) struct ServerArguments {
    /// Address and port to listen on; port 0 chooses a free one. An address that other machines can reach needs
    /// --api-key-file or --insecure
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:8080", help_heading = "Server")]
    pub(crate) listen: String,
    /// File with the API keys of clients, one per line; lines that begin with # are comments, and the word priority after a key
    /// allows its client to set the priority of its requests [default: no key is needed]
    #[arg(long, value_name = "FILE", help_heading = "Server")]
    api_key_file: Option<PathBuf>,
    /// Listen on an address that other machines can reach, without API keys; with --cluster also without certificates
    #[arg(long, hide_short_help = true, help_heading = "Server")]
    insecure: bool,
    /// Certificate of the server in PEM, with those between it and a root: connections are encrypted [default: none]
    #[arg(long, hide_short_help = true, value_name = "FILE", requires = "tls_key", help_heading = "Server")]
    tls_cert: Option<PathBuf>,
    /// Private key of --tls-cert in PEM
    #[arg(long, hide_short_help = true, value_name = "FILE", requires = "tls_cert", help_heading = "Server")]
    tls_key: Option<PathBuf>,
    /// Origin of web pages that may use the server, e.g. http://localhost:3000 (repeatable); * allows all [default: none]
    #[arg(long, hide_short_help = true, value_name = "ORIGIN", help_heading = "Server")]
    cors: Vec<String>,
    /// Name of this machine under which a server that only this machine can reach is used, besides localhost (repeatable), e.g.
    /// behind a proxy
    #[arg(long, hide_short_help = true, value_name = "NAME", help_heading = "Server")]
    allow_host: Vec<String>,
    /// Most requests of a model that wait beside those of --parallel; others are refused (429) and told when to try again
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(0..=1_000_000), help_heading = "Server")]
    queue: u32,
    /// Bounds the time of a step while answers are generated, in milliseconds: a long prompt is read in smaller parts, so that
    /// the streams of others go on; 0 = no bound
    #[arg(long, hide_short_help = true, value_name = "MS", default_value_t = 100, help_heading = "Server")]
    step_time: u32,
    /// Largest body of a request in MiB
    #[arg(long, hide_short_help = true, value_name = "MIB", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=4096), help_heading = "Server")]
    body_limit: u32,
    /// Most seconds until the head of a request, and then its body, must have arrived
    #[arg(long, hide_short_help = true, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..), help_heading = "Server")]
    read_timeout: u32,
    /// Most seconds from the head of a request to the end of its answer, also while it waits; then it ends with 504, and its work
    /// is cancelled. The header x-menagerie-timeout of a request sets a shorter time [default: no limit]
    #[arg(long, hide_short_help = true, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Server")]
    request_timeout: Option<u32>,
    /// Let every client set the priority of its requests, which can keep the others waiting
    #[arg(long, hide_short_help = true, help_heading = "Server")]
    allow_priority: bool,
    /// Seconds for which running requests go on after SIGTERM or Ctrl-C; new ones are refused (503)
    #[arg(
        long,
        hide_short_help = true,
        value_name = "SECONDS",
        default_value_t = 30,
        help_heading = "Server"
    )]
    drain: u32,
    /// Folder for /v1/files and /v1/batches: files of requests, and their results. It outlasts the server, and batches in it
    /// go on with the next one [default: these routes are refused]
    #[arg(long, hide_short_help = true, value_name = "DIR", help_heading = "Server")]
    pub(crate) batch_dir: Option<PathBuf>,
    /// Threads that speak HTTP; those of -t compute [default: 1, or 2 on more than 4 cores]
    #[arg(long, hide_short_help = true, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64), help_heading = "Server")]
    http_threads: Option<u32>,
    /// Address of an OpenTelemetry collector (OTLP over HTTP), e.g. http://127.0.0.1:4318: spans of requests are sent there
    /// [default: from OTEL_EXPORTER_OTLP_ENDPOINT, else none]
    #[cfg(feature = "opentelemetry")]
    #[arg(long, hide_short_help = true, value_name = "URL", help_heading = "Server")]
    otlp: Option<String>,
    /// Log of requests on standard error
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = LogFormatArgument::Json, help_heading = "Server")]
    log: LogFormatArgument,
}

impl ServerArguments {
    /// Whether other machines may connect without keys and certificates.
    #[cfg(feature = "cluster")]
    pub(crate) fn is_insecure(&self) -> bool {
        self.insecure
    }

    /// The options of the server.
    pub(crate) fn options(&self) -> Result<ServerOptions, Failure> {
        let mut options = ServerOptions::default();
        if let Some(file) = &self.api_key_file {
            options.keys = ApiKeys::parse(&prompt::read_file(file)?);
            if options.keys.is_empty() {
                return Err(Failure::about(
                    file.display(),
                    "the file has no API keys; expected one per line",
                ));
            }
        }
        options.key_file.clone_from(&self.api_key_file);
        if let (Some(certificate), Some(key)) = (&self.tls_cert, &self.tls_key) {
            options.tls = Some(TlsFiles::new(certificate, key));
        }
        options.request_time = self.request_timeout.map(|seconds| Duration::from_secs(seconds.into()));
        options.allow_priority = self.allow_priority;
        options.insecure = self.insecure;
        options.origins.clone_from(&self.cors);
        options.hosts.clone_from(&self.allow_host);
        options.queue = self.queue as usize;
        options.batch_dir.clone_from(&self.batch_dir);
        options.body_bytes = (self.body_limit as usize) << 20;
        options.read_time = Duration::from_secs(self.read_timeout.into());
        options.drain = Duration::from_secs(self.drain.into());
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        options.http_threads =
            self.http_threads.map_or(1 + usize::from(cores > 4), |threads| threads as usize);
        options.log = match self.log {
            LogFormatArgument::Json => LogFormat::Json,
            LogFormatArgument::Text => LogFormat::Text,
            LogFormatArgument::Off => LogFormat::Off,
        };
        options.sink = Arc::new(report::line);
        Ok(options)
    }

    /// The export of spans, if there is a collector.
    #[cfg(feature = "opentelemetry")]
    pub(crate) fn spans(&self, options: &mut ServerOptions) -> Result<Option<Arc<OtlpExport>>, Failure> {
        let of_process = || std::env::var("OTEL_EXPORTER_OTLP_ENDPOINT").ok().filter(|url| !url.is_empty());
        let Some(endpoint) = self.otlp.clone().or_else(of_process) else { return Ok(None) };
        let export = Arc::new(OtlpExport::start(&endpoint, Arc::clone(&options.sink))?);
        options.observer = Some(Arc::clone(&export) as _);
        Ok(Some(export))
    }

    /// The scheme of its address.
    pub(crate) fn scheme(&self) -> &'static str {
        if self.tls_cert.is_some() { "https" } else { "http" }
    }

    /// The bound of the time of steps in which answers are generated.
    pub(crate) fn step_time(&self) -> Option<Duration> {
        (self.step_time > 0).then(|| Duration::from_millis(self.step_time.into()))
    }
}

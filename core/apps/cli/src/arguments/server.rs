//! [`ServerArguments`]: where and for whom a server answers.

use crate::failure::Failure;
use crate::prompt;
use crate::screen::report;
use clap::{Args, ValueEnum};
use menagerie_server::{ApiKeys, LogFormat, ServerOptions};
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
    /// File with the API keys of clients, one per line; lines that begin with # are comments [default: no key is needed]
    #[arg(long, value_name = "FILE", help_heading = "Server")]
    api_key_file: Option<PathBuf>,
    /// Listen on an address that other machines can reach, without API keys
    #[arg(long, hide_short_help = true, help_heading = "Server")]
    insecure: bool,
    /// Origin of web pages that may use the server, e.g. http://localhost:3000 (repeatable); * allows all [default: none]
    #[arg(long, hide_short_help = true, value_name = "ORIGIN", help_heading = "Server")]
    cors: Vec<String>,
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
    /// Seconds for which running requests go on after SIGTERM or Ctrl-C; new ones are refused (503)
    #[arg(
        long,
        hide_short_help = true,
        value_name = "SECONDS",
        default_value_t = 30,
        help_heading = "Server"
    )]
    drain: u32,
    /// Threads that speak HTTP; those of -t compute [default: 1, or 2 on more than 4 cores]
    #[arg(long, hide_short_help = true, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64), help_heading = "Server")]
    http_threads: Option<u32>,
    /// Log of requests on standard error
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = LogFormatArgument::Json, help_heading = "Server")]
    log: LogFormatArgument,
}

impl ServerArguments {
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
        options.insecure = self.insecure;
        options.origins.clone_from(&self.cors);
        options.queue = self.queue as usize;
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

    /// The bound of the time of steps in which answers are generated.
    pub(crate) fn step_time(&self) -> Option<Duration> {
        (self.step_time > 0).then(|| Duration::from_millis(self.step_time.into()))
    }
}

//! `--metrics FILE`: what a pipeline did, as numbers for a program to read.

use crate::arguments::metrics_file::MetricsFile;
use crate::failure::Failure;
use crate::interrupt;
use crate::interrupt::LastActHeld;
use crate::screen::report;
use clap::Args;
use menagerie::engine::{Hookable, Metrics};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// How often the file is written while the command runs.
const EVERY: Duration = Duration::from_secs(3);

/// Where metrics go.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct MetricsArgument {
    /// Write counters and histograms of what was done to a file, in the text format of Prometheus: every 3 seconds and at the end. An
    /// earlier file of metrics is replaced; any other file is refused
    #[arg(long, hide_short_help = true, value_name = "FILE")]
    pub(crate) metrics: Option<PathBuf>,
}

/// Metrics that are written while the command runs, and when all is done.
pub(crate) struct WatchedMetrics(Option<Watch>);

struct Watch {
    file: Arc<MetricsFile>,
    /// Dropped to end the thread.
    until: Sender<()>,
    writer: JoinHandle<()>,
    _at_end: LastActHeld,
}

impl MetricsArgument {
    /// Refuses a file that cannot be written or is none of metrics, before anything is opened.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        self.metrics.as_deref().map_or(Ok(()), MetricsFile::check)
    }

    /// Counts what `pipeline` does from now on, if somebody wants to know.
    pub(crate) fn watch(&self, pipeline: &mut impl Hookable) -> Result<WatchedMetrics, Failure> {
        self.watch_all([pipeline as &mut dyn Hookable])
    }

    /// The same of several pipelines together.
    pub(crate) fn watch_all<'a>(
        &self,
        pipelines: impl IntoIterator<Item = &'a mut dyn Hookable>,
    ) -> Result<WatchedMetrics, Failure> {
        let Some(path) = &self.metrics else { return Ok(WatchedMetrics(None)) };
        let metrics = Arc::new(Metrics::default());
        pipelines.into_iter().for_each(|one| one.add_lifecycle(Arc::clone(&metrics) as _));
        let file = Arc::new(MetricsFile::new(path, metrics));
        file.write_meanwhile()?;
        let (until, ended) = channel::<()>();
        let own = Arc::clone(&file);
        let write = move || {
            let mut failed = false;
            while ended.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
                if let Err(failure) = own.write_meanwhile()
                    && !std::mem::replace(&mut failed, true)
                {
                    report::note(&format!("the metrics are not written: {}", failure.said()));
                }
            }
        };
        let writer = std::thread::Builder::new().name("menagerie-metrics".to_owned()).spawn(write)?;
        let last = Arc::clone(&file);
        // A signal ends the process: nobody is left to hear of a failure.
        let _at_end = interrupt::at_end(move || drop(last.write()))?;
        Ok(WatchedMetrics(Some(Watch { file, until, writer, _at_end })))
    }
}

impl WatchedMetrics {
    /// Writes what was counted, in place of what the file held.
    pub(crate) fn write(self) -> Result<(), Failure> {
        let Some(Watch { file, until, writer, _at_end }) = self.0 else { return Ok(()) };
        drop(until);
        // It panics nowhere; what it would have written is written here.
        drop(writer.join());
        file.write()
    }
}

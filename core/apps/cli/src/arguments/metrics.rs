//! `--metrics FILE`: counters and histograms of a pipeline for monitoring programs.

use crate::arguments::metrics_file::MetricsFile;
use crate::failure::Failure;
use crate::interrupt;
use crate::interrupt::ExitActionGuard;
use crate::screen::report;
use clap::Args;
use menagerie::engine::{Hookable, Metrics};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Interval at which the file is written while the command runs.
const EVERY: Duration = Duration::from_secs(3);

/// The metrics file.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct MetricsArgument {
    /// Write counters and histograms to a file in the Prometheus text format, every 3 seconds and at the end. An earlier
    /// metrics file is replaced; any other file is refused
    #[arg(long, hide_short_help = true, value_name = "FILE")]
    pub(crate) metrics: Option<PathBuf>,
}

/// Metrics that are written while the command runs and when it ends.
pub(crate) struct WatchedMetrics(Option<MetricsWatch>);

struct MetricsWatch {
    file: Arc<MetricsFile>,
    /// Dropped to end the thread.
    until: Sender<()>,
    writer: JoinHandle<()>,
    _at_end: ExitActionGuard,
}

impl MetricsArgument {
    /// Refuses a file that cannot be written or is not a metrics file, before anything is opened.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        self.metrics.as_deref().map_or(Ok(()), MetricsFile::check)
    }

    /// Starts to count the work of `pipeline`, if a file was given.
    pub(crate) fn watch(&self, pipeline: &mut impl Hookable) -> Result<WatchedMetrics, Failure> {
        self.watch_all([pipeline as &mut dyn Hookable])
    }

    /// The same for several pipelines together.
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
                    report::note(&format!("cannot write the metrics: {}", failure.said()));
                }
            }
        };
        let writer = std::thread::Builder::new().name("menagerie-metrics".to_owned()).spawn(write)?;
        let last = Arc::clone(&file);
        // A signal ends the process: a failure can no longer be reported.
        let _at_end = interrupt::at_end(move || drop(last.write()))?;
        Ok(WatchedMetrics(Some(MetricsWatch { file, until, writer, _at_end })))
    }
}

impl WatchedMetrics {
    /// Writes the final metrics.
    pub(crate) fn write(self) -> Result<(), Failure> {
        let Some(MetricsWatch { file, until, writer, _at_end }) = self.0 else { return Ok(()) };
        drop(until);
        // The thread does not panic; this call writes what it would have written.
        drop(writer.join());
        file.write()
    }
}

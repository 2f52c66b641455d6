//! `--metrics FILE`: what a pipeline did, as numbers for a program to read.

use crate::failure::Failure;
use crate::output_file::OutputFile;
use clap::Args;
use menagerie::pipeline::{Hookable, Metrics};
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

/// Where metrics go.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct MetricsArgument {
    /// Write counters and histograms of what was done to a file, in the text format of Prometheus
    #[arg(long, value_name = "FILE")]
    pub(crate) metrics: Option<PathBuf>,
}

/// Metrics that are written when all is done.
pub(crate) struct WatchedMetrics(Option<(PathBuf, Arc<Metrics>)>);

impl MetricsArgument {
    /// Counts what `pipeline` does from now on, if somebody wants to know.
    pub(crate) fn watch(&self, pipeline: &mut impl Hookable) -> WatchedMetrics {
        self.watch_all([pipeline as &mut dyn Hookable])
    }

    /// The same of several pipelines together.
    pub(crate) fn watch_all<'a>(
        &self,
        pipelines: impl IntoIterator<Item = &'a mut dyn Hookable>,
    ) -> WatchedMetrics {
        WatchedMetrics(self.metrics.as_ref().map(|path| {
            let metrics = Arc::new(Metrics::default());
            pipelines.into_iter().for_each(|one| one.add_lifecycle(Arc::clone(&metrics) as _));
            (path.clone(), metrics)
        }))
    }
}

impl WatchedMetrics {
    /// Writes what was counted, in place of what the file held.
    pub(crate) fn write(self) -> Result<(), Failure> {
        let Some((path, metrics)) = self.0 else { return Ok(()) };
        let mut file = OutputFile::create(&path, true, &[])?;
        write!(file, "{metrics}").map_err(|error| Failure::about(path.display(), error))?;
        file.commit()
    }
}

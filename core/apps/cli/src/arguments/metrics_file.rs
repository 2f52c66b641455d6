//! [`MetricsFile`]: a metrics file, replaced as a whole each time it is written.

use crate::failure::Failure;
use crate::output::output_file::{OutputFile, is_device, may_write};
use menagerie::engine::Metrics;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// The first bytes of a metrics file.
const BEGINNING: &[u8] = b"# HELP menagerie_";

/// A metrics file. A program that reads it, such as the textfile collector of Prometheus' node exporter, always sees a
/// complete file: the new text is written to a hidden file, which is then renamed.
pub(crate) struct MetricsFile {
    path: PathBuf,
    metrics: Arc<Metrics>,
    /// One thread writes at a time.
    writing: Mutex<()>,
}

impl MetricsFile {
    /// The file at `path`.
    pub(crate) fn new(path: &Path, metrics: Arc<Metrics>) -> Self {
        Self { path: path.to_owned(), metrics, writing: Mutex::new(()) }
    }

    /// Checks that a metrics file may be written there.
    ///
    /// # Errors
    /// The path is `-`, a folder, in a folder that does not exist, or a file with other contents.
    pub(crate) fn check(path: &Path) -> Result<(), Failure> {
        if path.as_os_str() == "-" {
            let reason = "--metrics -: standard output is used for the result of the command";
            return Err(
                Failure::Usage(reason.to_owned()).with_help("name a file; /dev/stderr is standard error")
            );
        }
        may_write(path, true, &[])?;
        if is_device(path) || Self::may_replace(path)? {
            return Ok(());
        }
        Err(Failure::about(path.display(), "exists and is not a metrics file of this program")
            .with_help("name another file for --metrics, or remove this one"))
    }

    /// Whether there is no file, an empty file or an earlier metrics file.
    fn may_replace(path: &Path) -> Result<bool, Failure> {
        let about = |error: std::io::Error| Failure::about(path.display(), error);
        let file = match File::open(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(true),
            other => other.map_err(about)?,
        };
        let mut beginning = Vec::new();
        file.take(BEGINNING.len() as u64).read_to_end(&mut beginning).map_err(about)?;
        Ok(beginning.is_empty() || beginning == BEGINNING)
    }

    /// Writes the current metrics, except to a device or a pipe, which gets them only at the end.
    ///
    /// # Errors
    /// The file cannot be written, or is no longer a metrics file.
    pub(crate) fn write_meanwhile(&self) -> Result<(), Failure> {
        if is_device(&self.path) { Ok(()) } else { self.write() }
    }

    /// Writes the current metrics.
    ///
    /// # Errors
    /// As [`Self::write_meanwhile`].
    pub(crate) fn write(&self) -> Result<(), Failure> {
        let _one_at_a_time = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        Self::check(&self.path)?;
        let mut file = OutputFile::create(&self.path, true, &[])?;
        write!(file, "{}", self.metrics).map_err(|error| Failure::about(self.path.display(), error))?;
        file.commit()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_replace_metrics_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.prom");
        let metrics = Arc::new(Metrics::default());
        let file = MetricsFile::new(&path, Arc::clone(&metrics));
        file.write().unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.as_bytes().starts_with(BEGINNING), "{text}");
        metrics.steps.add(7);
        file.write().unwrap();
        assert!(std::fs::read_to_string(&path).unwrap().contains("menagerie_steps_total 7"));
        std::fs::write(&path, "").unwrap();
        file.write().unwrap();
        for other in ["# HELP node_load1 load\n", "something", "#"] {
            std::fs::write(&path, other).unwrap();
            let said = file.write().unwrap_err().said();
            assert!(said.contains("is not a metrics file"), "{said}");
            assert_eq!(std::fs::read_to_string(&path).unwrap(), other);
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "no half file is left");
        assert!(MetricsFile::check(Path::new("-")).unwrap_err().said().contains("standard output"));
    }
}

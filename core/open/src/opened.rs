//! [`OpenedFile`]: a file that is open already, for another pipeline over the same weights.

use crate::resolved::ResolvedFile;
use menagerie_model::Compute;
use std::fmt;
use std::path::{Path, PathBuf};

/// A file that a pipeline has open, with its weights and its device. Another pipeline that is opened from it with the same
/// options does not map, read or quantize anything again.
#[derive(Clone)]
pub struct OpenedFile {
    path: PathBuf,
    resolved: ResolvedFile,
    compute: Compute,
}

impl OpenedFile {
    pub(crate) fn new(path: &Path, resolved: &ResolvedFile, compute: &Compute) -> Self {
        // The notices of loading are reported once.
        let resolved = ResolvedFile { loading: Vec::new(), ..resolved.clone() };
        Self { path: path.to_owned(), resolved, compute: compute.clone() }
    }

    /// The open file, if it was opened by this path.
    pub(crate) fn of(&self, path: &Path) -> Option<(ResolvedFile, Compute)> {
        (self.path == path).then(|| (self.resolved.clone(), self.compute.clone()))
    }
}

impl fmt::Debug for OpenedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OpenedFile({})", self.path.display())
    }
}

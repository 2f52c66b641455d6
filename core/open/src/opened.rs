//! [`OpenedFile`]: a file that is open already, for another pipeline over the same weights.

use crate::resolved::ResolvedFile;
use menagerie_model::Compute;
use std::fmt;
use std::path::{Path, PathBuf};

/// A file that a pipeline has open, with the weights that it took and where it computes: what opens it beside that one maps,
/// reads and quantizes nothing again. Both are opened with the same options.
#[derive(Clone)]
pub struct OpenedFile {
    path: PathBuf,
    resolved: ResolvedFile,
    compute: Compute,
}

impl OpenedFile {
    pub(crate) fn new(path: &Path, resolved: &ResolvedFile, compute: &Compute) -> Self {
        // What loading did is said once.
        let resolved = ResolvedFile { loading: Vec::new(), ..resolved.clone() };
        Self { path: path.to_owned(), resolved, compute: compute.clone() }
    }

    /// What is open, if this is the path that it was opened by.
    pub(crate) fn of(&self, path: &Path) -> Option<(ResolvedFile, Compute)> {
        (self.path == path).then(|| (self.resolved.clone(), self.compute.clone()))
    }
}

impl fmt::Debug for OpenedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OpenedFile({})", self.path.display())
    }
}

//! [`ResolvedName`]: the file that a name without a file resolved to when the hub was last asked.

use crate::cache::write_whole;
use crate::{HubError, HubSettings};
use std::path::PathBuf;

/// `org/repo` and `org/repo:QUANT` at a revision always resolve to the same file, also offline, and also if only another
/// file of the repository is left on this machine.
#[derive(Debug)]
pub(crate) struct ResolvedName {
    path: Option<PathBuf>,
}

impl ResolvedName {
    /// The record of a repository at a revision, with or without a quantization.
    pub(crate) fn of(settings: &HubSettings, id: &str, revision: &str, quantization: Option<&str>) -> Self {
        let quantization = quantization.map_or("default".to_owned(), str::to_ascii_uppercase);
        let path = settings.own_cache.as_ref().map(|own| {
            let repository = format!("models--{}", id.replace('/', "--"));
            own.join("names").join(repository).join(revision.replace('/', "--")).join(quantization)
        });
        Self { path }
    }

    /// The file, if the hub was asked before.
    pub(crate) fn file(&self) -> Option<String> {
        let text = std::fs::read_to_string(self.path.as_ref()?).ok()?;
        Some(text.trim().to_owned()).filter(|file| crate::identifiers::is_safe_file(file))
    }

    /// Saves the (first) file.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn remember(&self, file: &str) -> Result<(), HubError> {
        match &self.path {
            Some(path) if self.file().as_deref() != Some(file) => write_whole(path, file),
            _ => Ok(()),
        }
    }
}

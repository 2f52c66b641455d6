//! [`Meaning`]: which file a name without a file was found to mean when the hub was asked.

use crate::cache::write_whole;
use crate::{HubError, HubSettings};
use std::path::PathBuf;

/// `org/repo`, `org/repo:QUANT` and their revisions mean one file, also offline, and also when another file of the
/// repository is all that is left on this machine.
#[derive(Debug)]
pub(crate) struct Meaning {
    path: Option<PathBuf>,
}

impl Meaning {
    /// Of a repository at a revision with or without a quantization.
    pub(crate) fn of(
        environment: &HubSettings,
        id: &str,
        revision: &str,
        quantization: Option<&str>,
    ) -> Self {
        let quantization = quantization.map_or("default".to_owned(), str::to_ascii_uppercase);
        let path = environment.own_cache.as_ref().map(|own| {
            let repository = format!("models--{}", id.replace('/', "--"));
            own.join("names").join(repository).join(revision.replace('/', "--")).join(quantization)
        });
        Self { path }
    }

    /// The file, if the hub was asked before.
    pub(crate) fn file(&self) -> Option<String> {
        let text = std::fs::read_to_string(self.path.as_ref()?).ok()?;
        Some(text.trim().to_owned()).filter(|file| crate::reference::is_safe_file(file))
    }

    /// Remembers the (first) file.
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

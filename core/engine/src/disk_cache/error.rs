//! [`DiskCacheError`]: why a disk cache cannot be opened.

use crate::error::GenerateError;
use crate::identity::IdentityError;
use std::io;
use std::path::Path;

/// Why a [`crate::DiskCache`] or a [`crate::CacheFolder`] cannot be opened. Errors after that are no errors of a
/// request: it computes what the cache cannot give.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DiskCacheError {
    /// An error of the operating system.
    #[error("{folder}: cannot {action} the cache folder: {source}; name another folder for --cache")]
    Folder {
        /// The folder.
        folder: String,
        /// What failed, as it follows "cannot".
        action: &'static str,
        /// Why it failed.
        source: io::Error,
    },
    /// The states depend on more than the tokens before them.
    #[error("the states of this model cannot be cached on disk: {0}; leave --cache out")]
    Unsupported(String),
    /// An option is invalid.
    #[error("{0}")]
    Options(&'static str),
    /// The states cannot be read.
    #[error("the states of this model cannot be cached on disk: {0}; leave --cache out")]
    State(#[from] GenerateError),
    /// Something that the states depend on cannot be identified.
    #[error(transparent)]
    Identity(#[from] IdentityError),
}

impl DiskCacheError {
    pub(super) fn folder(folder: &Path, action: &'static str, source: io::Error) -> Self {
        Self::Folder { folder: folder.display().to_string(), action, source }
    }
}

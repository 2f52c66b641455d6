//! [`Leftover`]: files of interrupted or damaged downloads on this machine.

use crate::cache::{RepositoryCache, below, entries, is_folder, remove_if_there};
use crate::lock;
use crate::{HubError, HubSettings};
use menagerie_files::{FileLock, path_text};
use serde::{Serialize, Serializer};
use std::path::{Path, PathBuf};

/// The state of a model or a download.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DownloadState {
    /// All files exist.
    Complete,
    /// Files or bytes are missing; a pull downloads them.
    Incomplete,
    /// The checksum does not match.
    Damaged,
    /// A folder without model files.
    Empty,
}

impl DownloadState {
    /// The state in one word, as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Incomplete => "incomplete",
            Self::Damaged => "damaged",
            Self::Empty => "empty",
        }
    }
}

/// A file or folder of a download that is not a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Leftover {
    /// The name for removing it: `org/repo`, or a short name. Several leftovers may share it.
    pub name: String,
    /// Its path.
    #[serde(serialize_with = "as_text")]
    pub path: PathBuf,
    /// Its size in bytes.
    pub bytes: u64,
    /// `package` or `hub`.
    pub source: &'static str,
    /// Its state; never [`DownloadState::Complete`].
    pub state: DownloadState,
    #[serde(skip)]
    location: LeftoverLocation,
}

/// A path in JSON.
pub(crate) fn as_text<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&path_text(path))
}

/// The location of a leftover.
#[derive(Clone, Debug, PartialEq, Eq)]
enum LeftoverLocation {
    /// A file for the blob with this ETag in a repository of the hub cache.
    Blob { id: String, etag: String },
    /// The folder of a repository of the hub cache.
    Repository { id: String },
    /// In the folder of a package's model.
    Package,
}

/// Suffixes of unfinished blobs: those of this program, and those of the Hugging Face tools.
const ENDINGS: [(&str, DownloadState); 3] = [
    (".part", DownloadState::Incomplete),
    (".incomplete", DownloadState::Incomplete),
    (".bad", DownloadState::Damaged),
];

/// Every leftover, by name.
///
/// # Errors
/// The cache exists but cannot be read.
pub(crate) fn leftovers(settings: &HubSettings) -> Result<Vec<Leftover>, HubError> {
    let mut found = Vec::new();
    for (id, cache) in RepositoryCache::all(settings)? {
        for path in cache.blob_files()? {
            let Some((etag, state)) = unfinished(&path) else { continue };
            let location = LeftoverLocation::Blob { id: id.clone(), etag };
            found.push(Leftover::new(id.clone(), path, "hub", state, location));
        }
        if cache.is_empty() {
            let location = LeftoverLocation::Repository { id: id.clone() };
            found.push(Leftover::new(id, cache.folder().to_owned(), "hub", DownloadState::Empty, location));
        }
    }
    if let Some(own) = &settings.own_cache {
        for folder in entries(&own.join("models"))?.into_iter().filter(|path| is_folder(path)) {
            let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
            for path in entries(&folder)? {
                let state = match path.file_name().and_then(|name| name.to_str()) {
                    Some(".pull") => DownloadState::Incomplete,
                    Some(file) if file.ends_with(".bad") => DownloadState::Damaged,
                    _ => continue,
                };
                found.push(Leftover::new(name.clone(), path, "package", state, LeftoverLocation::Package));
            }
        }
    }
    found.sort_by(|a, b| (&a.name, &a.path).cmp(&(&b.name, &b.path)));
    Ok(found)
}

/// The ETag and state of an unfinished blob.
fn unfinished(path: &Path) -> Option<(String, DownloadState)> {
    let name = path.file_name()?.to_str()?;
    let (etag, state) =
        ENDINGS.iter().find_map(|(ending, state)| Some((name.strip_suffix(ending)?, *state)))?;
    // The Hugging Face tools may add a name: `ETAG.NAME.incomplete`.
    let etag = if name.ends_with(".incomplete") { etag.split('.').next().unwrap_or(etag) } else { etag };
    Some((etag.to_owned(), state))
}

impl Leftover {
    fn new(
        name: String,
        path: PathBuf,
        source: &'static str,
        state: DownloadState,
        location: LeftoverLocation,
    ) -> Self {
        let files = if is_folder(&path) { below(&path).1 } else { vec![path.clone()] };
        let bytes = files.iter().filter_map(|file| file.symlink_metadata().ok());
        let bytes = bytes.filter(|own| !own.is_symlink()).map(|own| own.len()).sum();
        Self { name, path, bytes, source, state, location }
    }

    /// The lock file of its download; `None` for a repository, which has one lock for each blob.
    fn lock(&self, settings: &HubSettings) -> Result<Option<PathBuf>, HubError> {
        Ok(match &self.location {
            LeftoverLocation::Blob { id, etag } => Some(RepositoryCache::of(settings, id)?.lock_file(etag)),
            LeftoverLocation::Package => Some(self.path.with_file_name(".lock")),
            LeftoverLocation::Repository { .. } => None,
        })
    }

    /// Whether another process downloads it at the moment.
    ///
    /// # Errors
    /// [`HubError::NoHome`].
    pub(crate) fn is_downloading(&self, settings: &HubSettings) -> Result<bool, HubError> {
        match (self.lock(settings)?, &self.location) {
            (Some(lock), _) => Ok(FileLock::is_held(&lock)),
            (None, LeftoverLocation::Repository { id }) => {
                Ok(RepositoryCache::of(settings, id)?.is_downloading())
            }
            (None, _) => Ok(false),
        }
    }

    /// Removes it, and the repository's folder if it becomes empty. Returns `false` and removes nothing if another process
    /// downloads it.
    ///
    /// # Errors
    /// It cannot be removed.
    pub(crate) fn remove(&self, settings: &HubSettings) -> Result<bool, HubError> {
        if let Some(lock) = self.lock(settings)? {
            let Some(_held) = lock::try_acquire(&lock)? else { return Ok(false) };
            if is_folder(&self.path) {
                std::fs::remove_dir_all(&self.path).map_err(HubError::io(&self.path))?;
            } else {
                remove_if_there(&self.path)?;
            }
        } else if self.is_downloading(settings)? {
            return Ok(false);
        }
        if let LeftoverLocation::Blob { id, .. } | LeftoverLocation::Repository { id } = &self.location {
            RepositoryCache::of(settings, id)?.remove_if_empty();
        }
        Ok(true)
    }
}

//! The models on this machine: those in the program's own cache and those in the shared hub cache.

use crate::cache::{RepositoryCache, entries, remove_if_there, require_no_link};
use crate::catalog::Catalog;
use crate::checksum::Checksum;
use crate::folder::Folder;
use crate::identifiers::file_name;
use crate::leftover::{DownloadState, as_text};
use crate::lock;
use crate::package::{Package, aside};
use crate::repository::read_index;
use crate::{HubError, HubSettings, Progress, quantization};
use menagerie_files::path_text;
use serde::{Serialize, Serializer};
use std::path::{Path, PathBuf};

/// A model on this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct InstalledModel {
    /// The name for running it; no other model on this machine has this name.
    pub name: String,
    /// Its (first) file, or its folder.
    #[serde(serialize_with = "as_text")]
    pub path: PathBuf,
    /// Size of its files in bytes.
    pub bytes: u64,
    /// `package` or `hub`.
    pub source: &'static str,
    /// Its existing files.
    #[serde(serialize_with = "as_texts")]
    pub files: Vec<PathBuf>,
    /// The names of missing parts of a split model.
    pub missing: Vec<String>,
    /// [`DownloadState::Incomplete`] if parts are missing.
    pub state: DownloadState,
    #[serde(skip)]
    location: ModelLocation,
}

/// The location of an installed model.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ModelLocation {
    /// A package of this SHA-256.
    Package { sha256: String },
    /// Files of a snapshot of a repository.
    Hub { id: String, commit: String, names: Vec<String> },
}

fn as_texts<S: Serializer>(paths: &[PathBuf], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(paths.iter().map(|path| path_text(path)))
}

/// The result of a verification.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "verdict", content = "reason")]
pub enum Verification {
    /// The checksum matches.
    Good,
    /// The file is damaged; the text says how.
    Bad(String),
    /// There is no checksum for this file; the text says why.
    Unknown(String),
}

/// The result of a removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Removal {
    /// Number of removed files.
    pub files: usize,
    /// Freed bytes; less than the size of the model if another snapshot shares files.
    pub bytes: u64,
}

/// Every model on this machine, by name.
///
/// # Errors
/// The cache exists but cannot be read.
pub(crate) fn installed(settings: &HubSettings, catalog: &Catalog) -> Result<Vec<InstalledModel>, HubError> {
    let mut models = Vec::new();
    for listed in catalog.all() {
        let package = Package { settings, listed: &listed };
        if let Ok(path) = package.path()
            && path.is_file()
        {
            let location = ModelLocation::Package { sha256: listed.file.sha256.clone() };
            models.push(InstalledModel::new(listed.name(), "package", vec![path], location));
        }
    }
    for (id, cache) in RepositoryCache::all(settings)? {
        let references = cache.references();
        for commit in cache.commits()? {
            let revision = name_of(&references, &commit);
            for (first, parts) in snapshot_models(&cache, &commit) {
                let listed = catalog.at(&id, &commit, &first).map(|listed| listed.name());
                let free =
                    listed.filter(|name| models.iter().all(|model: &InstalledModel| model.name != *name));
                let name = free.unwrap_or_else(|| file_name(&id, revision, &first));
                let paths = parts.iter().map(|part| cache.pointer(&commit, part)).collect();
                let missing: Vec<String> =
                    quantization::parts(&first).into_iter().filter(|part| !parts.contains(part)).collect();
                let location = ModelLocation::Hub { id: id.clone(), commit: commit.clone(), names: parts };
                models.push(InstalledModel::new(name, "hub", paths, location).without(missing));
            }
            models.extend(snapshot_folder(&cache, &id, (&commit, revision)));
        }
    }
    models.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(models)
}

/// The models of a snapshot: the name of the first part, and the existing parts.
fn snapshot_models(cache: &RepositoryCache, commit: &str) -> Vec<(String, Vec<String>)> {
    let names: Vec<String> = cache.files(commit).into_iter().map(|(name, _)| name).collect();
    let models = quantization::models(&names).into_values();
    models.map(|parts| (quantization::parts(&parts[0]).swap_remove(0), parts)).collect()
}

/// The model of a snapshot without GGUF files: a folder.
fn snapshot_folder(
    cache: &RepositoryCache,
    id: &str,
    (commit, revision): (&str, &str),
) -> Option<InstalledModel> {
    let cached: Vec<String> = cache.files(commit).into_iter().map(|(name, _)| name).collect();
    if cached.iter().any(|name| quantization::is_model(name)) {
        return None;
    }
    let folder = Folder::of(&cached)?;
    let weights = folder.weights(|| read_index(cache, commit)).ok()?;
    let (here, missing): (Vec<String>, Vec<String>) =
        weights.into_iter().partition(|weights| cached.contains(weights));
    let names: Vec<String> = folder.beside.into_iter().chain(here).collect();
    let paths = names.iter().map(|name| cache.pointer(commit, name)).collect();
    let name = if revision == "main" { id.to_owned() } else { format!("{id}@{revision}") };
    let location = ModelLocation::Hub { id: id.to_owned(), commit: commit.to_owned(), names };
    let model = InstalledModel::new(name, "hub", paths, location);
    Some(InstalledModel { path: cache.snapshot(commit), ..model.without(missing) })
}

/// The name of a commit in a reference: the main branch, another name, or the commit.
fn name_of<'a>(references: &'a std::collections::BTreeMap<String, String>, commit: &'a str) -> &'a str {
    if references.get("main").is_some_and(|named| named == commit) {
        return "main";
    }
    references.iter().find(|(_, named)| *named == commit).map_or(commit, |(name, _)| name)
}

impl InstalledModel {
    fn new(name: String, source: &'static str, files: Vec<PathBuf>, location: ModelLocation) -> Self {
        let bytes = files.iter().filter_map(|file| Some(std::fs::metadata(file).ok()?.len())).sum();
        let path = files.first().cloned().unwrap_or_default();
        Self {
            name,
            path,
            bytes,
            source,
            files,
            missing: Vec::new(),
            state: DownloadState::Complete,
            location,
        }
    }

    fn without(self, missing: Vec<String>) -> Self {
        let state = if missing.is_empty() { DownloadState::Complete } else { DownloadState::Incomplete };
        Self { missing, state, ..self }
    }

    /// Whether a text is its name, or the path or name of one of its files.
    pub(crate) fn is_called(&self, text: &str) -> bool {
        let same =
            |path: &Path| path.as_os_str() == text || path.file_name().is_some_and(|name| name == text);
        self.name == text || self.files.iter().any(|path| same(path))
    }
}

/// Verifies a model's bytes with its package's checksum or the names of its blobs.
///
/// # Errors
/// A file cannot be read.
pub(crate) fn verify(
    settings: &HubSettings,
    model: &InstalledModel,
    progress: &mut dyn Progress,
) -> Result<Verification, HubError> {
    if let Some(part) = model.missing.first() {
        return Ok(Verification::Bad(format!(
            "{} parts are missing; the first is {part}",
            model.missing.len()
        )));
    }
    let mut unknown = None;
    for (path, checksum) in model.files.iter().zip(checksums(settings, model)?) {
        match checksum {
            Err(reason) => unknown = Some(reason),
            Ok(checksum) => match checksum.check(path, &model.name, progress) {
                Ok(()) => {}
                Err(error @ HubError::Checksum { .. }) => return Ok(Verification::Bad(error.to_string())),
                Err(other) => return Err(other),
            },
        }
    }
    Ok(unknown.map_or(Verification::Good, Verification::Unknown))
}

/// The checksum of each file, or the reason why there is none.
fn checksums(
    settings: &HubSettings,
    model: &InstalledModel,
) -> Result<Vec<Result<Checksum, String>>, HubError> {
    let id = match &model.location {
        ModelLocation::Package { sha256 } => return Ok(vec![Ok(Checksum::Sha256(sha256.clone()))]),
        ModelLocation::Hub { id, .. } => id,
    };
    let cache = RepositoryCache::of(settings, id)?;
    let promise = |path: &PathBuf| match cache.blob_of(path) {
        None => Err("it is not a link to a blob of the cache, whose name is a checksum".to_owned()),
        Some(etag) => Checksum::of_name(&etag).ok_or_else(|| {
            format!("the hub has no checksum for it: its ETag `{etag}` is neither a SHA-256 nor a git hash")
        }),
    };
    Ok(model.files.iter().map(promise).collect())
}

/// Removes every file of a model, and the blobs that no other model uses; nothing outside the cache.
///
/// # Errors
/// A file cannot be removed; [`HubError::Outside`] if it is behind a link.
pub(crate) fn remove(settings: &HubSettings, model: &InstalledModel) -> Result<Removal, HubError> {
    match &model.location {
        ModelLocation::Package { .. } => {
            let own = model.path.symlink_metadata().map_err(HubError::io(&model.path))?;
            let folder = model.path.parent().unwrap_or(&model.path);
            require_no_link(folder)?;
            std::fs::remove_file(&model.path).map_err(HubError::io(&model.path))?;
            let lock = folder.join(".lock");
            if let Some(_held) = lock::try_acquire(&lock)? {
                remove_if_there(&aside(&model.path))?;
                // Best effort: the folder is kept if it has another file of the model.
                if entries(folder)?.iter().all(|path| *path == lock) {
                    let _ = std::fs::remove_file(&lock).and_then(|()| std::fs::remove_dir(folder));
                }
            }
            Ok(Removal { files: 1, bytes: if own.is_symlink() { 0 } else { own.len() } })
        }
        ModelLocation::Hub { id, commit, names } => {
            let cache = RepositoryCache::of(settings, id)?;
            let mut bytes = 0;
            for name in names {
                bytes += cache.remove(commit, name)?;
            }
            Ok(Removal { files: names.len(), bytes })
        }
    }
}

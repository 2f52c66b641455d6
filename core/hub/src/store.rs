//! What is on this machine: our own models and the GGUF files of the shared hub cache.

use crate::download::verify_blob;
use crate::{Environment, HubError, Progress, checksum, package, quantisation};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// A model on this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Installed {
    /// What to type to run it.
    pub name: String,
    /// Its (first) file.
    pub path: PathBuf,
    /// Bytes of the file.
    pub bytes: u64,
    /// `package` or `hub`.
    pub source: &'static str,
}

/// Outcome of a verification.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The bytes are those that were promised.
    Good,
    /// They are not; the text says how.
    Bad(String),
    /// Nobody promised anything about this file.
    Unknown,
}

/// Every model on this machine, by name.
pub fn installed(environment: &Environment) -> Vec<Installed> {
    let mut models: Vec<Installed> = package::PACKAGES
        .iter()
        .filter_map(|package| entry(package.alias.to_owned(), package.path(environment), "package"))
        .collect();
    let Ok(repositories) = std::fs::read_dir(&environment.hub_cache) else { return models };
    for repository in repositories.flatten() {
        let folder = repository.file_name().to_string_lossy().into_owned();
        let Some(id) = folder.strip_prefix("models--").map(|id| id.replacen("--", "/", 1)) else { continue };
        let snapshots = std::fs::read_dir(repository.path().join("snapshots"));
        for snapshot in snapshots.into_iter().flatten().flatten() {
            let mut files = Vec::new();
            gguf_files(&snapshot.path(), &mut files);
            for file in files {
                let inside =
                    file.strip_prefix(snapshot.path()).unwrap_or(&file).to_string_lossy().into_owned();
                models.extend(entry(format!("hf:{id}/{inside}"), file, "hub"));
            }
        }
    }
    models.sort_by(|a, b| a.name.cmp(&b.name));
    models
}

/// Checks a model's bytes against its package's checksum or the name of its blob.
///
/// # Errors
/// The file cannot be read.
pub fn verify(model: &Installed, progress: &mut dyn Progress) -> Result<Verdict, HubError> {
    let checked = match package::PACKAGES.iter().find(|package| package.alias == model.name) {
        Some(package) => checksum::check(&model.path, package.sha256, progress).map(Some),
        None => verify_blob(&model.path, progress),
    };
    match checked {
        Ok(Some(())) => Ok(Verdict::Good),
        Ok(None) => Ok(Verdict::Unknown),
        Err(error @ HubError::Checksum { .. }) => Ok(Verdict::Bad(error.to_string())),
        Err(other) => Err(other),
    }
}

/// Removes a model's file, and its blob where the hub cache links to one.
///
/// # Errors
/// The file cannot be removed.
pub fn remove(model: &Installed) -> Result<(), HubError> {
    let blob = std::fs::canonicalize(&model.path).map_err(HubError::io(&model.path))?;
    std::fs::remove_file(&model.path).map_err(HubError::io(&model.path))?;
    if blob != model.path && blob.exists() {
        std::fs::remove_file(&blob).map_err(HubError::io(&blob))?;
    }
    Ok(())
}

fn entry(name: String, path: PathBuf, source: &'static str) -> Option<Installed> {
    let bytes = std::fs::metadata(&path).ok()?.len();
    Some(Installed { name, path, bytes, source })
}

fn gguf_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            gguf_files(&path, found);
        } else if quantisation::is_model(&path.to_string_lossy()) {
            found.push(path);
        }
    }
}

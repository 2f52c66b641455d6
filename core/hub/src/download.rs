//! Downloads from a hub through `hf-hub`, into the cache that other tools share.

use crate::package::require_space;
use crate::reference::is_safe_file;
use crate::{Environment, HubError, Progress, checksum, quantisation};
use hf_hub::api::sync::{Api, ApiBuilder, ApiError, ApiRepo};
use hf_hub::{Cache, Repo, RepoType};
use std::path::{Path, PathBuf};

/// A repository at a revision.
#[derive(Clone, Debug)]
pub struct Repository {
    /// `org/repo`.
    pub id: String,
    /// Branch, tag or commit.
    pub revision: String,
}

/// Lets `hf-hub` speak to our [`Progress`].
struct Bar<'a>(&'a mut dyn Progress);

impl hf_hub::api::Progress for Bar<'_> {
    fn init(&mut self, size: usize, filename: &str) {
        self.0.begin(filename, Some(size as u64));
    }
    fn update(&mut self, size: usize) {
        self.0.advance(size as u64);
    }
    fn finish(&mut self) {
        self.0.end();
    }
}

impl Repository {
    fn repo(&self) -> Repo {
        Repo::with_revision(self.id.clone(), RepoType::Model, self.revision.clone())
    }

    /// The files of the snapshot this revision points to in the shared cache, with their paths.
    pub fn cached_files(&self, environment: &Environment) -> Vec<(String, PathBuf)> {
        let folder = environment.hub_cache.join(self.repo().folder_name());
        let reference = folder.join("refs").join(&self.revision);
        let commit = std::fs::read_to_string(reference).unwrap_or_else(|_| self.revision.clone());
        let snapshot = folder.join("snapshots").join(commit.trim());
        let mut found = Vec::new();
        collect(&snapshot, &snapshot, &mut found);
        found.sort();
        found
    }

    /// The first file of the model, if every part of it is in the cache.
    pub fn locate(
        &self,
        environment: &Environment,
        quantisation: Option<&str>,
        file: Option<&str>,
    ) -> Option<PathBuf> {
        let cached = self.cached_files(environment);
        let names: Vec<String> = cached.iter().map(|(name, _)| name.clone()).collect();
        let chosen = match file {
            Some(file) => names.iter().find(|name| *name == file).map(|name| vec![name.clone()])?,
            None => quantisation::choose(&names, quantisation)?,
        };
        if chosen.len() > 1 && !all_parts(&chosen) {
            return None;
        }
        cached.into_iter().find(|(name, _)| *name == chosen[0]).map(|(_, path)| path)
    }

    /// Downloads the model (every part of a split one), resuming what was begun, and checks sizes and checksums.
    ///
    /// # Errors
    /// Offline, no such repository or file, no room, a broken transfer, or other bytes than promised.
    pub fn pull(
        &self,
        environment: &Environment,
        quantisation: Option<&str>,
        file: Option<&str>,
        progress: &mut dyn Progress,
    ) -> Result<PathBuf, HubError> {
        if environment.offline {
            return Err(HubError::NotInstalled {
                model: self.id.clone(),
                advice: "HF_HUB_OFFLINE is set; unset it to download".to_owned(),
            });
        }
        let api = self.api(environment)?;
        let repo = api.repo(self.repo());
        let chosen = self.choose(&repo, environment, quantisation, file)?;
        let mut total = 0;
        for name in &chosen {
            let metadata = api.metadata(&repo.url(name)).map_err(|e| self.remote(environment, name, &e))?;
            total += metadata.size() as u64;
        }
        std::fs::create_dir_all(&environment.hub_cache).map_err(HubError::io(&environment.hub_cache))?;
        let cached = Cache::new(environment.hub_cache.clone()).repo(self.repo());
        if chosen.iter().any(|name| cached.get(name).is_none()) {
            require_space(&environment.hub_cache, &self.id, total + (64 << 20))?;
        }
        let mut paths = Vec::new();
        for name in &chosen {
            let path = match cached.get(name) {
                Some(path) => path,
                None => repo
                    .download_with_progress(name, Bar(progress))
                    .map_err(|e| self.remote(environment, name, &e))?,
            };
            verify_blob(&path, progress)?;
            paths.push(path);
        }
        Ok(paths.swap_remove(0))
    }

    fn api(&self, environment: &Environment) -> Result<Api, HubError> {
        ApiBuilder::from_cache(Cache::new(environment.hub_cache.clone()))
            .with_endpoint(environment.endpoint.clone())
            .with_token(environment.token.clone())
            .with_progress(false)
            .with_retries(2)
            .with_user_agent("menagerie", env!("CARGO_PKG_VERSION"))
            .build()
            .map_err(|error| self.remote(environment, "the client", &error))
    }

    fn choose(
        &self,
        repo: &ApiRepo,
        environment: &Environment,
        quantisation: Option<&str>,
        file: Option<&str>,
    ) -> Result<Vec<String>, HubError> {
        let info = repo.info().map_err(|error| self.remote(environment, "the list of files", &error))?;
        let names: Vec<String> = info
            .siblings
            .into_iter()
            .map(|sibling| sibling.rfilename)
            .filter(|name| is_safe_file(name))
            .collect();
        let chosen = match file {
            Some(file) => names.iter().find(|name| *name == file).map(|name| vec![name.clone()]),
            None => quantisation::choose(&names, quantisation),
        };
        chosen.ok_or_else(|| {
            let models: Vec<&str> =
                names.iter().map(String::as_str).filter(|name| quantisation::is_model(name)).collect();
            HubError::NoSuchFile {
                repository: self.id.clone(),
                wanted: file.or(quantisation).unwrap_or("any quantisation").to_owned(),
                available: if models.is_empty() {
                    "no GGUF file at all".to_owned()
                } else {
                    models.join(", ")
                },
            }
        })
    }

    fn remote(&self, environment: &Environment, what: &str, error: &ApiError) -> HubError {
        let reason = error.to_string();
        let advice = if reason.contains("401") || reason.contains("403") {
            "the repository is private or gated: accept its terms on its page and set HF_TOKEN"
        } else if reason.contains("404") {
            "check the name of the repository, its revision and the file"
        } else {
            "check the network (and HF_ENDPOINT, if set); what was fetched is kept and the next pull goes on from there"
        };
        HubError::Remote {
            what: format!("{} of {}", what, self.id),
            endpoint: environment.endpoint.clone(),
            reason,
            advice: advice.to_owned(),
        }
    }
}

/// The hub names blobs of large files by their SHA-256: compare.
pub(crate) fn verify_blob(path: &Path, progress: &mut dyn Progress) -> Result<Option<()>, HubError> {
    let blob = std::fs::canonicalize(path).map_err(HubError::io(path))?;
    let name = blob.file_name().unwrap_or_default().to_string_lossy().into_owned();
    if !checksum::is_sha256(&name) {
        return Ok(None);
    }
    checksum::check(&blob, &name, progress).map(Some)
}

fn all_parts(chosen: &[String]) -> bool {
    let total = chosen[0].rsplit_once("-of-").and_then(|(_, rest)| rest.strip_suffix(".gguf")?.parse().ok());
    total == Some(chosen.len())
}

fn collect(root: &Path, folder: &Path, found: &mut Vec<(String, PathBuf)>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(root, &path, found);
        } else if path.exists()
            && let Ok(name) = path.strip_prefix(root)
        {
            found.push((name.to_string_lossy().replace('\\', "/"), path));
        }
    }
}

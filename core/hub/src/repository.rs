//! [`Repository`]: a repository of the hub at a revision, and the selected model in it.

use crate::cache::RepositoryCache;
use crate::client::{Client, RemoteFile};
use crate::folder::{Folder, INDEX, LONGEST_INDEX};
use crate::identifiers::file_name;
use crate::quantization::{self, FileChoice};
use crate::resolved_name::ResolvedName;
use crate::space::require_space;
use crate::transfer::{Transfer, length};
use crate::{HubError, HubSettings, Progress};
use std::path::PathBuf;

/// The selection of a model in a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FileSelection {
    /// The default quantization, or the only model.
    Default,
    /// The model with this quantization.
    Quantization(String),
    /// This file (and the other parts, if it is one of a split model).
    File(String),
}

/// A repository at a revision.
#[derive(Clone, Debug)]
pub(crate) struct Repository<'a> {
    pub(crate) settings: &'a HubSettings,
    /// `org/repo`.
    pub(crate) id: String,
    /// Branch, tag or commit.
    pub(crate) revision: String,
    /// Which of its models.
    pub(crate) selection: FileSelection,
    /// The SHA-256 that the file must have according to the table of models, if any.
    pub(crate) sha256: Option<String>,
}

impl Repository<'_> {
    /// The first file of the model, or its folder, if all its parts are in the cache.
    ///
    /// # Errors
    /// Several files of the cache match, or there is no cache.
    pub(crate) fn locate(&self) -> Result<Option<PathBuf>, HubError> {
        let cache = RepositoryCache::of(self.settings, &self.id)?;
        let commit = cache.commit(&self.revision);
        let cached: Vec<String> = cache.files(&commit).into_iter().map(|(name, _)| name).collect();
        let parts = self.file_of(&cached)?.map(|first| quantization::parts(&first));
        if let Some(parts) = parts.filter(|parts| parts.iter().all(|part| cached.contains(part))) {
            return Ok(Some(cache.pointer(&commit, &parts[0])));
        }
        let folder = self.folder_of(&cached).filter(|folder| whole(folder, &cache, &commit, &cached));
        Ok(folder.map(|_| cache.snapshot(&commit)))
    }

    /// The selected file according to the cache: the named one, the one of an earlier answer of the hub, or the only one with
    /// the label.
    fn file_of(&self, cached: &[String]) -> Result<Option<String>, HubError> {
        let label = match &self.selection {
            FileSelection::File(file) => return Ok(Some(file.clone())),
            FileSelection::Quantization(label) => label.as_str(),
            FileSelection::Default => quantization::DEFAULT,
        };
        if let Some(known) = self.resolved_name().file() {
            return Ok(Some(known));
        }
        match quantization::choose(cached, Some(label)) {
            FileChoice::Nothing => Ok(None),
            FileChoice::Files(files) => Ok(files.into_iter().next()),
            FileChoice::Ambiguous(files) => Err(self.ambiguous(&files)),
        }
    }

    fn resolved_name(&self) -> ResolvedName {
        let quantization = match &self.selection {
            FileSelection::Quantization(label) => Some(label.as_str()),
            _ => None,
        };
        ResolvedName::of(self.settings, &self.id, &self.revision, quantization)
    }

    fn ambiguous(&self, files: &[String]) -> HubError {
        let candidates = files.iter().map(|file| file_name(&self.id, &self.revision, file)).collect();
        HubError::Ambiguous { name: self.name(), candidates }
    }

    fn name(&self) -> String {
        match &self.selection {
            FileSelection::Quantization(label) => format!("{}:{label}", self.id),
            FileSelection::File(file) => file_name(&self.id, &self.revision, file),
            FileSelection::Default => self.id.clone(),
        }
    }

    /// Resolves the selection with the hub, downloads missing files (all parts of a split model), resumes interrupted
    /// downloads, and verifies lengths and checksums of all files.
    ///
    /// # Errors
    /// The repository or file does not exist, the hub does not answer, the disk is full, or a checksum differs.
    pub(crate) fn pull(&self, progress: &mut dyn Progress) -> Result<PathBuf, HubError> {
        let client = Client::new(self.settings)?;
        let cache = RepositoryCache::of(self.settings, &self.id)?;
        let listing = client.listing(&self.id, &self.revision)?;
        let listed = listing.files();
        if let Some(folder) = self.folder_of(&listed) {
            let hub =
                RemoteSnapshot { client: &client, cache: &cache, commit: &listing.commit, files: &listed };
            self.pull_folder(&hub, &folder, progress)?;
            cache.set_commit(&self.revision, &listing.commit)?;
            return Ok(cache.snapshot(&listing.commit));
        }
        let names = self.choose(&listed)?;
        let mut files = Vec::new();
        for name in &names {
            let file = client.describe(&self.id, &listing.commit, name)?;
            self.check_table(name, &file)?;
            files.push(file);
        }
        self.require_space(&cache, &files)?;
        for (name, file) in names.iter().zip(&files) {
            Transfer { client: &client, cache: &cache, file, progress }.run()?;
            cache.link(&listing.commit, name, &file.etag)?;
        }
        cache.set_commit(&self.revision, &listing.commit)?;
        if !matches!(self.selection, FileSelection::File(_)) {
            self.resolved_name().remember(&names[0])?;
        }
        Ok(cache.pointer(&listing.commit, &names[0]))
    }

    /// The folder to download, if no file is requested and there is no GGUF file.
    fn folder_of(&self, files: &[String]) -> Option<Folder> {
        let gguf = files.iter().any(|file| quantization::is_model(file));
        if gguf || self.selection != FileSelection::Default { None } else { Folder::of(files) }
    }

    /// Downloads a folder, the weights last: if all weights exist, the folder is complete.
    fn pull_folder(
        &self,
        hub: &RemoteSnapshot,
        folder: &Folder,
        progress: &mut dyn Progress,
    ) -> Result<(), HubError> {
        self.pull_files(hub, &folder.beside, progress)?;
        let fault = |problem: String| HubError::Io {
            path: hub.cache.pointer(hub.commit, INDEX),
            source: std::io::Error::new(std::io::ErrorKind::InvalidData, problem),
        };
        let weights = folder.weights(|| read_index(hub.cache, hub.commit)).map_err(fault)?;
        if let Some(missing) = weights.iter().find(|file| !hub.files.contains(file)) {
            return Err(HubError::NoSuchFile {
                repository: self.id.clone(),
                wanted: format!("{missing}, which {INDEX} lists"),
                available: "other files".to_owned(),
            });
        }
        self.pull_files(hub, &weights, progress)
    }

    /// Downloads missing files and adds all of them to the snapshot.
    fn pull_files(
        &self,
        hub: &RemoteSnapshot,
        names: &[String],
        progress: &mut dyn Progress,
    ) -> Result<(), HubError> {
        let files = names.iter().map(|name| hub.client.describe(&self.id, hub.commit, name));
        let files: Vec<RemoteFile> = files.collect::<Result<_, _>>()?;
        self.require_space(hub.cache, &files)?;
        for (name, file) in names.iter().zip(&files) {
            Transfer { client: hub.client, cache: hub.cache, file, progress }.run()?;
            hub.cache.link(hub.commit, name, &file.etag)?;
        }
        Ok(())
    }

    /// The selected files, including all parts.
    fn choose(&self, listed: &[String]) -> Result<Vec<String>, HubError> {
        let choice = match &self.selection {
            FileSelection::File(file) if listed.contains(file) => {
                FileChoice::Files(quantization::parts(file))
            }
            FileSelection::File(_) => FileChoice::Nothing,
            FileSelection::Quantization(label) => quantization::choose(listed, Some(label)),
            FileSelection::Default => quantization::choose(listed, None),
        };
        let nothing = |wanted: String| {
            let models: Vec<&str> =
                listed.iter().map(String::as_str).filter(|name| quantization::is_model(name)).collect();
            let available = match models.as_slice() {
                [] if Folder::of(listed).is_some() => {
                    format!("no GGUF files; its safetensors are `{}`", self.id)
                }
                [] if listed.iter().any(|name| is_pickle(name)) => {
                    "no GGUF or safetensors files: its weights are Python pickles, which are not supported because they can \
                     contain programs; look for another version of the model"
                        .to_owned()
                }
                [] => "no GGUF files".to_owned(),
                models => models.join(", "),
            };
            HubError::NoSuchFile { repository: self.id.clone(), wanted, available }
        };
        let files = match choice {
            FileChoice::Files(files) => quantization::parts(&files[0]),
            FileChoice::Ambiguous(files) => return Err(self.ambiguous(&files)),
            FileChoice::Nothing => {
                return Err(nothing(match &self.selection {
                    FileSelection::File(name) | FileSelection::Quantization(name) => name.clone(),
                    FileSelection::Default => "any quantization".to_owned(),
                }));
            }
        };
        match files.iter().find(|file| !listed.contains(file)) {
            Some(missing) => Err(nothing(format!("the part {missing}"))),
            None => Ok(files),
        }
    }

    /// Checks that the hub and the table of models have the same checksum.
    fn check_table(&self, name: &str, file: &RemoteFile) -> Result<(), HubError> {
        match &self.sha256 {
            Some(expected) if !file.etag.eq_ignore_ascii_case(expected) => Err(HubError::Replaced {
                file: name.to_owned(),
                repository: self.id.clone(),
                expected: expected.clone(),
                found: file.etag.clone(),
            }),
            _ => Ok(()),
        }
    }

    /// Checks the disk space for the missing files.
    fn require_space(&self, cache: &RepositoryCache, files: &[RemoteFile]) -> Result<(), HubError> {
        let missing = |file: &RemoteFile| {
            let blob = cache.blob(&file.etag);
            if blob.exists() {
                0
            } else {
                file.bytes.unwrap_or(0).saturating_sub(length(&cache.part(&file.etag)))
            }
        };
        let folder = cache.prepare()?;
        require_space(&folder, &self.id, files.iter().map(missing).sum())
    }
}

/// A commit on the hub with its files, and its cache.
struct RemoteSnapshot<'a> {
    client: &'a Client,
    cache: &'a RepositoryCache,
    commit: &'a str,
    files: &'a [String],
}

/// Whether all weights of a folder are in the cache.
fn whole(folder: &Folder, cache: &RepositoryCache, commit: &str, cached: &[String]) -> bool {
    let weights = folder.weights(|| read_index(cache, commit));
    weights.is_ok_and(|weights| weights.iter().all(|file| cached.contains(file)))
}

/// The text of a snapshot's index.
///
/// # Errors
/// It cannot be read.
pub(crate) fn read_index(cache: &RepositoryCache, commit: &str) -> Result<String, String> {
    let path = cache.pointer(commit, INDEX);
    let failed = |error: std::io::Error| error.to_string();
    if std::fs::metadata(&path).map_err(failed)?.len() > LONGEST_INDEX {
        return Err(format!("{INDEX} is longer than {LONGEST_INDEX} bytes"));
    }
    std::fs::read_to_string(&path).map_err(failed)
}

/// Weights in Python pickles.
fn is_pickle(name: &str) -> bool {
    [".bin", ".pth", ".pt", ".ckpt"].iter().any(|ending| name.ends_with(ending))
}

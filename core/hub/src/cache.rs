//! [`RepositoryCache`]: one repository in the cache of the Hugging Face tools.

use crate::{HubError, HubSettings, Progress, lock};
use menagerie_files::FileLock;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// The folder `models--org--repo`: `blobs/<etag>`, `refs/<revision>` with a commit, and
/// `snapshots/<commit>/<file>`, relative links to blobs.
#[derive(Clone, Debug)]
pub(crate) struct RepositoryCache {
    folder: PathBuf,
    locks: PathBuf,
}

impl RepositoryCache {
    /// The cache of `org/repo`.
    ///
    /// # Errors
    /// [`HubError::NoHome`].
    pub(crate) fn of(settings: &HubSettings, id: &str) -> Result<Self, HubError> {
        let cache = settings.hub_folder()?;
        let name = format!("models--{}", id.replace('/', "--"));
        Ok(Self { folder: cache.join(&name), locks: cache.join(".locks").join(name) })
    }

    /// Every repository of the cache with its id.
    ///
    /// # Errors
    /// The cache exists but cannot be read.
    pub(crate) fn all(settings: &HubSettings) -> Result<Vec<(String, Self)>, HubError> {
        let Some(cache) = &settings.hub_cache else { return Ok(Vec::new()) };
        let names =
            entries(cache)?.into_iter().filter_map(|path| Some(path.file_name()?.to_str()?.to_owned()));
        let ids = names.filter_map(|name| Some(name.strip_prefix("models--")?.replace("--", "/")));
        ids.map(|id| Ok((id.clone(), Self::of(settings, &id)?))).collect()
    }

    /// The path of a complete file.
    pub(crate) fn blob(&self, etag: &str) -> PathBuf {
        self.blobs().join(etag)
    }

    /// The path of a partial download.
    pub(crate) fn part(&self, etag: &str) -> PathBuf {
        self.blobs().join(format!("{etag}.part"))
    }

    /// The path of a damaged download.
    pub(crate) fn aside(&self, etag: &str) -> PathBuf {
        self.blobs().join(format!("{etag}.bad"))
    }

    /// The folder of blobs.
    pub(crate) fn blobs(&self) -> PathBuf {
        self.folder.join("blobs")
    }

    /// All files in the folder of blobs, including leftovers of downloads; none if the folder is behind a link.
    ///
    /// # Errors
    /// The folder exists but cannot be read.
    pub(crate) fn blob_files(&self) -> Result<Vec<PathBuf>, HubError> {
        let folders = [self.folder.clone(), self.blobs()];
        if folders.iter().all(|folder| is_folder(folder)) { entries(&self.blobs()) } else { Ok(Vec::new()) }
    }

    /// Creates the folder of blobs.
    ///
    /// # Errors
    /// It cannot be created.
    pub(crate) fn prepare(&self) -> Result<PathBuf, HubError> {
        let blobs = self.blobs();
        std::fs::create_dir_all(&blobs).map_err(HubError::folder(&blobs))?;
        Ok(blobs)
    }

    /// Locks a file; waits until no other process downloads it, including the Hugging Face tools.
    ///
    /// # Errors
    /// The lock cannot be created.
    pub(crate) fn lock(
        &self,
        etag: &str,
        what: &str,
        progress: &mut dyn Progress,
    ) -> Result<FileLock, HubError> {
        lock::acquire(&self.lock_file(etag), what, progress)
    }

    /// The lock file of a blob, which is locked during a download.
    pub(crate) fn lock_file(&self, etag: &str) -> PathBuf {
        self.locks.join(format!("{etag}.lock"))
    }

    /// Whether another process downloads a file of the repository.
    pub(crate) fn is_downloading(&self) -> bool {
        entries(&self.locks).unwrap_or_default().iter().any(FileLock::is_held)
    }

    /// The repository's folder.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The commit of a branch, tag or commit in this cache.
    pub(crate) fn commit(&self, revision: &str) -> String {
        let read = std::fs::read_to_string(self.folder.join("refs").join(revision));
        let commit = read.ok().map(|commit| commit.trim().to_owned());
        commit
            .filter(|commit| crate::identifiers::is_safe_file(commit))
            .unwrap_or_else(|| revision.to_owned())
    }

    /// Saves the commit of a branch or tag.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn set_commit(&self, revision: &str, commit: &str) -> Result<(), HubError> {
        let path = self.folder.join("refs").join(revision);
        let known = std::fs::read_to_string(&path).is_ok_and(|known| known == commit);
        if revision == commit || known { Ok(()) } else { write_whole(&path, commit) }
    }

    /// The commits by branch or tag.
    pub(crate) fn references(&self) -> BTreeMap<String, String> {
        let mut files = Vec::new();
        let folder = self.folder.join("refs");
        collect(&folder, &folder, &mut files);
        let read = |(name, path): (String, PathBuf)| {
            Some((name, std::fs::read_to_string(path).ok()?.trim().to_owned()))
        };
        files.into_iter().filter_map(read).collect()
    }

    /// The commits that have a snapshot, sorted.
    ///
    /// # Errors
    /// The folder exists but cannot be read.
    pub(crate) fn commits(&self) -> Result<Vec<String>, HubError> {
        let names = entries(&self.folder.join("snapshots"))?;
        Ok(names.iter().filter_map(|path| Some(path.file_name()?.to_str()?.to_owned())).collect())
    }

    /// The folder of a snapshot.
    pub(crate) fn snapshot(&self, commit: &str) -> PathBuf {
        self.folder.join("snapshots").join(commit)
    }

    /// The path of a file of a snapshot.
    pub(crate) fn pointer(&self, commit: &str, file: &str) -> PathBuf {
        self.folder.join("snapshots").join(commit).join(file)
    }

    /// The existing files of a snapshot, with their paths.
    pub(crate) fn files(&self, commit: &str) -> Vec<(String, PathBuf)> {
        let snapshot = self.folder.join("snapshots").join(commit);
        let mut found = Vec::new();
        collect(&snapshot, &snapshot, &mut found);
        found.sort();
        found
    }

    /// Adds a blob to a snapshot as a relative link, or as the file itself if links are not supported.
    ///
    /// # Errors
    /// The link cannot be created; [`HubError::Outside`] if a file behind a link would be replaced.
    pub(crate) fn link(&self, commit: &str, file: &str, etag: &str) -> Result<PathBuf, HubError> {
        let pointer = self.pointer(commit, file);
        if self.blob_of(&pointer).as_deref() == Some(etag) && pointer.exists() {
            return Ok(pointer);
        }
        let folder = pointer.parent().unwrap_or(&self.folder).to_owned();
        std::fs::create_dir_all(&folder).map_err(HubError::folder(&folder))?;
        if pointer.symlink_metadata().is_ok() {
            self.require_own(&pointer)?;
            std::fs::remove_file(&pointer).map_err(HubError::io(&pointer))?;
        }
        let mut target = PathBuf::from("../../");
        target.extend(file.split('/').skip(1).map(|_| ".."));
        symlink(&target.join("blobs").join(etag), &pointer)
            .or_else(|_| std::fs::rename(self.blob(etag), &pointer))
            .map_err(HubError::io(&pointer))?;
        Ok(pointer)
    }

    /// The name of the blob that a file of a snapshot is a link to; `None` if it links to anything else, or is a file.
    ///
    /// Follows one link only: a blob may itself be a link into a store that the Hugging Face tools share between
    /// repositories.
    pub(crate) fn blob_of(&self, pointer: &Path) -> Option<String> {
        let target = std::fs::read_link(pointer).ok()?;
        let target = pointer.parent()?.join(target);
        let folder = std::fs::canonicalize(target.parent()?).ok()?;
        let ours = std::fs::canonicalize(self.blobs()).ok()?;
        if folder == ours { Some(target.file_name()?.to_str()?.to_owned()) } else { None }
    }

    /// Refuses a file of a snapshot in a folder that is a link, which may lead anywhere.
    fn require_own(&self, pointer: &Path) -> Result<(), HubError> {
        let above = pointer.ancestors().skip(1).take_while(|folder| folder.starts_with(&self.folder));
        let beside = [self.blobs(), self.folder.join("refs")];
        above.chain(beside.iter().map(PathBuf::as_path)).try_for_each(require_no_link)
    }

    /// Removes a file of a snapshot, and its blob with partial downloads if no other snapshot links to it; returns the
    /// freed bytes. A repository without files is removed too.
    ///
    /// # Errors
    /// It cannot be removed; [`HubError::Outside`] if a folder of the repository is a link.
    pub(crate) fn remove(&self, commit: &str, file: &str) -> Result<u64, HubError> {
        let pointer = self.pointer(commit, file);
        self.require_own(&pointer)?;
        let bytes = self.remove_file(&pointer, commit)?;
        self.remove_if_empty();
        Ok(bytes)
    }

    fn remove_file(&self, pointer: &Path, commit: &str) -> Result<u64, HubError> {
        let blob = self.blob_of(pointer);
        let own = pointer.symlink_metadata().map_err(HubError::io(pointer))?;
        std::fs::remove_file(pointer).map_err(HubError::io(pointer))?;
        self.remove_empty_folders(pointer, commit);
        let Some(etag) = blob else {
            return Ok(if own.is_symlink() { 0 } else { own.len() });
        };
        for other in self.commits()? {
            if self.links(&other).iter().any(|path| self.blob_of(path).as_deref() == Some(&etag)) {
                return Ok(0);
            }
        }
        let blob = self.blob(&etag);
        let bytes = blob.symlink_metadata().map_or(0, |own| if own.is_symlink() { 0 } else { own.len() });
        remove_if_there(&blob)?;
        // A file that another process downloads is kept.
        let left = [self.part(&etag), self.aside(&etag)];
        if left.iter().any(|path| path.symlink_metadata().is_ok())
            && let Some(_lock) = lock::try_acquire(&self.lock_file(&etag))?
        {
            left.iter().try_for_each(|path| remove_if_there(path))?;
        }
        Ok(bytes)
    }

    /// Whether the repository's folder has no files except names of commits and the Hugging Face tools' marks of missing
    /// files.
    pub(crate) fn is_empty(&self) -> bool {
        let notes = NOTES.map(|name| self.folder.join(name));
        is_folder(&self.folder)
            && below(&self.folder).1.iter().all(|file| notes.iter().any(|note| file.starts_with(note)))
    }

    /// Removes the folder of a repository that [`Self::is_empty`], unless another process downloads a file of it.
    pub(crate) fn remove_if_empty(&self) {
        if !self.is_empty() || self.is_downloading() {
            return;
        }
        let (folders, files) = below(&self.folder);
        // Best effort, and one by one: files that appear meanwhile are kept.
        files.iter().for_each(|file| drop(std::fs::remove_file(file)));
        folders.iter().rev().for_each(|folder| drop(std::fs::remove_dir(folder)));
    }

    /// All files in a snapshot, including broken links.
    fn links(&self, commit: &str) -> Vec<PathBuf> {
        below(&self.folder.join("snapshots").join(commit)).1
    }

    /// Removes folders that became empty, including the snapshot and its references.
    fn remove_empty_folders(&self, pointer: &Path, commit: &str) {
        let snapshots = self.folder.join("snapshots");
        let above = pointer.ancestors().skip(1).take_while(|folder| *folder != snapshots);
        for folder in above {
            // Stops at the first that is not empty.
            if std::fs::remove_dir(folder).is_err() {
                return;
            }
        }
        for (name, _) in self.references().iter().filter(|(_, named)| *named == commit) {
            let _ = std::fs::remove_file(self.folder.join("refs").join(name));
        }
    }
}

/// Folders of a repository without model files: names of commits, and marks of files that the hub does not have.
const NOTES: [&str; 2] = ["refs", ".no_exist"];

/// A folder with all folders below it, parents first, and all files in them; links are not followed.
pub(crate) fn below(folder: &Path) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let (mut folders, mut files) = (vec![folder.to_owned()], Vec::new());
    let mut next = 0;
    while let Some(folder) = folders.get(next) {
        for path in entries(folder).unwrap_or_default() {
            if is_folder(&path) { folders.push(path) } else { files.push(path) }
        }
        next += 1;
    }
    (folders, files)
}

/// Whether the path is a folder and not a link.
pub(crate) fn is_folder(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|own| own.is_dir())
}

/// Refuses a path that is a link.
///
/// # Errors
/// [`HubError::Outside`].
pub(crate) fn require_no_link(path: &Path) -> Result<(), HubError> {
    match std::fs::read_link(path) {
        Ok(target) => Err(HubError::Outside { link: path.to_owned(), target }),
        Err(_) => Ok(()),
    }
}

/// Removes a file, if it exists.
pub(crate) fn remove_if_there(path: &Path) -> Result<(), HubError> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(HubError::io(path)(error)),
        _ => Ok(()),
    }
}

/// The entries of a folder, sorted; none if it does not exist.
pub(crate) fn entries(folder: &Path) -> Result<Vec<PathBuf>, HubError> {
    let listed = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(HubError::io(folder))?,
    };
    let mut paths = Vec::new();
    for entry in listed {
        paths.push(entry.map_err(HubError::io(folder))?.path());
    }
    paths.sort();
    Ok(paths)
}

/// Collects the files below a folder with their names, including valid links.
fn collect(root: &Path, folder: &Path, found: &mut Vec<(String, PathBuf)>) {
    for path in entries(folder).unwrap_or_default() {
        if is_folder(&path) {
            collect(root, &path, found);
        } else if path.is_file()
            && let Ok(name) = path.strip_prefix(root)
        {
            found.push((name.to_string_lossy().replace('\\', "/"), path));
        }
    }
}

/// Writes a small file atomically.
pub(crate) fn write_whole(path: &Path, text: &str) -> Result<(), HubError> {
    let folder = path.parent().unwrap_or(path);
    std::fs::create_dir_all(folder).map_err(HubError::folder(folder))?;
    // Two threads may write the same file at once: each needs a different name.
    static WRITTEN: AtomicU64 = AtomicU64::new(0);
    let own = WRITTEN.fetch_add(1, Ordering::Relaxed);
    let mut hidden = path.file_name().unwrap_or_default().to_owned();
    hidden.push(format!(".{}-{own}.tmp", std::process::id()));
    let hidden = path.with_file_name(hidden);
    std::fs::write(&hidden, text).map_err(HubError::io(&hidden))?;
    std::fs::rename(&hidden, path).map_err(HubError::io(path))
}

#[cfg(unix)]
fn symlink(target: &Path, link: &Path) -> std::io::Result<()> {
    std::os::unix::fs::symlink(target, link)
}

#[cfg(not(unix))]
fn symlink(_target: &Path, _link: &Path) -> std::io::Result<()> {
    Err(std::io::ErrorKind::Unsupported.into())
}

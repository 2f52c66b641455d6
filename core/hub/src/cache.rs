//! [`RepositoryCache`]: one repository in the cache that HF's own tools use.

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
    /// Of `org/repo`.
    ///
    /// # Errors
    /// [`HubError::NoHome`].
    pub(crate) fn of(environment: &HubSettings, id: &str) -> Result<Self, HubError> {
        let cache = environment.hub_folder()?;
        let name = format!("models--{}", id.replace('/', "--"));
        Ok(Self { folder: cache.join(&name), locks: cache.join(".locks").join(name) })
    }

    /// Every repository of the cache with its id.
    ///
    /// # Errors
    /// The cache is there and cannot be read.
    pub(crate) fn all(environment: &HubSettings) -> Result<Vec<(String, Self)>, HubError> {
        let Some(cache) = &environment.hub_cache else { return Ok(Vec::new()) };
        let names =
            entries(cache)?.into_iter().filter_map(|path| Some(path.file_name()?.to_str()?.to_owned()));
        let ids = names.filter_map(|name| Some(name.strip_prefix("models--")?.replace("--", "/")));
        ids.map(|id| Ok((id.clone(), Self::of(environment, &id)?))).collect()
    }

    /// Where a finished file lies.
    pub(crate) fn blob(&self, etag: &str) -> PathBuf {
        self.blobs().join(etag)
    }

    /// Where what was fetched of it so far lies.
    pub(crate) fn part(&self, etag: &str) -> PathBuf {
        self.blobs().join(format!("{etag}.part"))
    }

    /// Where its bytes lie if they are wrong.
    pub(crate) fn aside(&self, etag: &str) -> PathBuf {
        self.blobs().join(format!("{etag}.bad"))
    }

    /// Where blobs lie.
    pub(crate) fn blobs(&self) -> PathBuf {
        self.folder.join("blobs")
    }

    /// The files beside the blobs: what downloads left in the cache itself, not behind a link.
    ///
    /// # Errors
    /// The folder is there and cannot be read.
    pub(crate) fn fetched(&self) -> Result<Vec<PathBuf>, HubError> {
        let folders = [self.folder.clone(), self.blobs()];
        if folders.iter().all(|folder| is_folder(folder)) { entries(&self.blobs()) } else { Ok(Vec::new()) }
    }

    /// Makes the folder of blobs.
    ///
    /// # Errors
    /// It cannot be made.
    pub(crate) fn prepare(&self) -> Result<PathBuf, HubError> {
        let blobs = self.blobs();
        std::fs::create_dir_all(&blobs).map_err(HubError::folder(&blobs))?;
        Ok(blobs)
    }

    /// Waits until nobody else fetches a file, HF's tools included.
    ///
    /// # Errors
    /// The lock cannot be made.
    pub(crate) fn lock(
        &self,
        etag: &str,
        what: &str,
        progress: &mut dyn Progress,
    ) -> Result<FileLock, HubError> {
        lock::acquire(&self.lock_file(etag), what, progress)
    }

    /// The file that whoever fetches a blob has locked.
    pub(crate) fn lock_file(&self, etag: &str) -> PathBuf {
        self.locks.join(format!("{etag}.lock"))
    }

    /// Whether another process fetches a file of the repository.
    pub(crate) fn is_fetched(&self) -> bool {
        entries(&self.locks).unwrap_or_default().iter().any(|lock| FileLock::is_held(lock))
    }

    /// The repository's folder.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The commit a branch, tag or commit stands for in this cache.
    pub(crate) fn commit(&self, revision: &str) -> String {
        let read = std::fs::read_to_string(self.folder.join("refs").join(revision));
        let commit = read.ok().map(|commit| commit.trim().to_owned());
        commit.filter(|commit| crate::reference::is_safe_file(commit)).unwrap_or_else(|| revision.to_owned())
    }

    /// Remembers what a branch or tag stands for.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn set_commit(&self, revision: &str, commit: &str) -> Result<(), HubError> {
        let path = self.folder.join("refs").join(revision);
        let known = std::fs::read_to_string(&path).is_ok_and(|known| known == commit);
        if revision == commit || known { Ok(()) } else { write_whole(&path, commit) }
    }

    /// What is called what: commit by branch or tag.
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
    /// The folder is there and cannot be read.
    pub(crate) fn commits(&self) -> Result<Vec<String>, HubError> {
        let names = entries(&self.folder.join("snapshots"))?;
        Ok(names.iter().filter_map(|path| Some(path.file_name()?.to_str()?.to_owned())).collect())
    }

    /// Where the files of a snapshot lie.
    pub(crate) fn snapshot(&self, commit: &str) -> PathBuf {
        self.folder.join("snapshots").join(commit)
    }

    /// Where a file of a snapshot lies.
    pub(crate) fn pointer(&self, commit: &str, file: &str) -> PathBuf {
        self.folder.join("snapshots").join(commit).join(file)
    }

    /// The files of a snapshot that are there, with their paths.
    pub(crate) fn files(&self, commit: &str) -> Vec<(String, PathBuf)> {
        let snapshot = self.folder.join("snapshots").join(commit);
        let mut found = Vec::new();
        collect(&snapshot, &snapshot, &mut found);
        found.sort();
        found
    }

    /// Puts a blob into a snapshot: a relative link, or the file itself where there are no links.
    ///
    /// # Errors
    /// The link cannot be made; [`HubError::Outside`] if another file would be replaced behind a link.
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
    /// Looks at one link only: a blob may itself be a link into a store that HF's tools share between repositories.
    pub(crate) fn blob_of(&self, pointer: &Path) -> Option<String> {
        let target = std::fs::read_link(pointer).ok()?;
        let target = pointer.parent()?.join(target);
        let folder = std::fs::canonicalize(target.parent()?).ok()?;
        let ours = std::fs::canonicalize(self.blobs()).ok()?;
        if folder == ours { Some(target.file_name()?.to_str()?.to_owned()) } else { None }
    }

    /// Refuses a file of a snapshot that lies behind a link: a folder that is one may lead anywhere.
    fn require_own(&self, pointer: &Path) -> Result<(), HubError> {
        let above = pointer.ancestors().skip(1).take_while(|folder| folder.starts_with(&self.folder));
        let beside = [self.blobs(), self.folder.join("refs")];
        above.chain(beside.iter().map(PathBuf::as_path)).try_for_each(require_no_link)
    }

    /// Removes a file of a snapshot, and its blob with what belongs to it if nothing else links there; returns the
    /// bytes that became free. A repository without any file goes too.
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
        // What another process fetches stays with it.
        let left = [self.part(&etag), self.aside(&etag)];
        if left.iter().any(|path| path.symlink_metadata().is_ok())
            && let Some(_lock) = lock::try_acquire(&self.lock_file(&etag))?
        {
            left.iter().try_for_each(|path| remove_if_there(path))?;
        }
        Ok(bytes)
    }

    /// Whether the repository has a folder of its own and no file in it but names of commits and HF's marks of absent files.
    pub(crate) fn is_empty(&self) -> bool {
        let notes = NOTES.map(|name| self.folder.join(name));
        is_folder(&self.folder)
            && below(&self.folder).1.iter().all(|file| notes.iter().any(|note| file.starts_with(note)))
    }

    /// Removes the folder of a repository that [`Self::is_empty`], unless another process fetches a file of it.
    pub(crate) fn remove_if_empty(&self) {
        if !self.is_empty() || self.is_fetched() {
            return;
        }
        let (folders, files) = below(&self.folder);
        // Best effort, and one by one: whatever appears meanwhile stays.
        files.iter().for_each(|file| drop(std::fs::remove_file(file)));
        folders.iter().rev().for_each(|folder| drop(std::fs::remove_dir(folder)));
    }

    /// Everything in a snapshot, links that lead nowhere included.
    fn links(&self, commit: &str) -> Vec<PathBuf> {
        below(&self.folder.join("snapshots").join(commit)).1
    }

    /// Folders that became empty, the snapshot's own and what names it included.
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

/// Parts of a repository that hold no file of a model: names of commits, and HF's marks of files that the hub lacks.
const NOTES: [&str; 2] = ["refs", ".no_exist"];

/// A folder with all folders below it, each after the one it is in, and everything else in them; links are not followed.
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

/// Whether a folder lies there, and not a link to one.
pub(crate) fn is_folder(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|own| own.is_dir())
}

/// Refuses to go on behind a link.
///
/// # Errors
/// [`HubError::Outside`].
pub(crate) fn require_no_link(path: &Path) -> Result<(), HubError> {
    match std::fs::read_link(path) {
        Ok(target) => Err(HubError::Outside { link: path.to_owned(), target }),
        Err(_) => Ok(()),
    }
}

/// Removes a file; one that is not there is no error.
pub(crate) fn remove_if_there(path: &Path) -> Result<(), HubError> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(HubError::io(path)(error)),
        _ => Ok(()),
    }
}

/// What a folder holds, sorted; nothing if it is not there.
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

/// Files below a folder with their names, links that lead somewhere included.
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

/// Writes a small file so that nobody sees half of it.
pub(crate) fn write_whole(path: &Path, text: &str) -> Result<(), HubError> {
    let folder = path.parent().unwrap_or(path);
    std::fs::create_dir_all(folder).map_err(HubError::folder(folder))?;
    // Two threads may write the same file at once: each needs a name of its own.
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

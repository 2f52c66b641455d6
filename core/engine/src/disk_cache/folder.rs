//! [`CacheFolder`]: the files of disk caches, as any number of processes share them.
//!
//! ```text
//! DIR/<32 digits>/about.json                 which model and options the files are of
//! DIR/<32 digits>/<64 digits>-<n>.rows       a block, the n-th of its prompt
//! DIR/<32 digits>/<64 digits>-<n>.snapshot   states at the end of that block
//! DIR/<32 digits>/<process>-<time>.part    a file that is being written
//! DIR/cache.lock                             locked while files are removed because of the limits
//! ```
//!
//! A file appears whole under its name, by a rename, and is never changed. So readers need no lock, and it does not
//! matter which of several writers of the same block is last. Nothing else in the folder is touched.

use super::address::GROUP_DIGITS;
use super::entry::{ABOUT, CacheEntry, EntryRole, entries_of, is_hex};
use super::error::DiskCacheError;
use menagerie_files::FileLock;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// The age from which a half-written file is the leftover of a process that was killed.
const LEFTOVER_AGE: Duration = Duration::from_secs(3600);

/// The lock file.
const LOCK: &str = "cache.lock";

/// A folder of disk caches, of any models.
#[derive(Clone, Debug)]
pub struct CacheFolder {
    path: PathBuf,
}

/// The files of one model and its options in a [`CacheFolder`].
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[non_exhaustive]
pub struct CacheListing {
    /// The name of their folder.
    pub name: String,
    /// Id of the architecture; `None` if it is not known.
    pub architecture: Option<String>,
    /// The type of keys and values, the device and the arithmetic, and adapters.
    pub options: Option<String>,
    /// Blocks.
    pub blocks: usize,
    /// Their tokens; `None` if the size of a block is not known.
    pub tokens: Option<usize>,
    /// Bytes of all files.
    pub bytes: u64,
    /// When one of them was used last.
    #[serde(serialize_with = "in_seconds")]
    pub last_used: Option<SystemTime>,
}

/// The content of [`ABOUT`].
#[derive(serde::Serialize, serde::Deserialize)]
pub(super) struct CacheGroup {
    pub(super) architecture: String,
    pub(super) options: String,
    pub(super) block_tokens: usize,
}

impl CacheFolder {
    /// The cache in the folder at `path`, which is made if it does not exist.
    ///
    /// # Errors
    /// The folder cannot be made or read, or is a file.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, DiskCacheError> {
        let path = path.as_ref();
        fs::create_dir_all(path).map_err(|error| DiskCacheError::folder(path, "make", error))?;
        fs::read_dir(path).map_err(|error| DiskCacheError::folder(path, "read", error))?;
        Ok(Self { path: path.to_owned() })
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The files, by model and options, those used last first.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn listing(&self) -> Result<Vec<CacheListing>, DiskCacheError> {
        let read = |error| DiskCacheError::folder(&self.path, "read", error);
        let mut all = Vec::new();
        for group in self.groups().map_err(read)? {
            let entries = entries_of(&group).map_err(read)?;
            let text = fs::read(group.join(ABOUT)).ok();
            let about: Option<CacheGroup> = text.and_then(|text| serde_json::from_slice(&text).ok());
            let blocks = entries.iter().filter(|one| matches!(one.role, EntryRole::Rows(_))).count();
            all.push(CacheListing {
                name: group.file_name().unwrap_or_default().to_string_lossy().into_owned(),
                tokens: about.as_ref().map(|about| blocks.saturating_mul(about.block_tokens)),
                options: about.as_ref().map(|about| about.options.clone()),
                architecture: about.map(|about| about.architecture),
                blocks,
                bytes: entries.iter().map(|one| one.bytes).sum(),
                last_used: entries.iter().map(|one| one.used).max(),
            });
        }
        all.sort_by_key(|one| std::cmp::Reverse(one.last_used));
        Ok(all)
    }

    /// Removes all files of the cache, and their folders. Returns the number of files and their bytes. Nothing else in
    /// the folder is removed. Processes that use the cache compute what they no longer find.
    ///
    /// # Errors
    /// A file cannot be removed.
    pub fn clear(&self) -> Result<(usize, u64), DiskCacheError> {
        let remove = |error| DiskCacheError::folder(&self.path, "clear", error);
        let (mut files, mut bytes) = (0, 0);
        for group in self.groups().map_err(remove)? {
            for entry in entries_of(&group).map_err(remove)? {
                if gone(fs::remove_file(&entry.path)).map_err(remove)? {
                    files += 1;
                    bytes += entry.bytes;
                }
            }
            // Another process may write into it, or there are files of somebody else.
            let _ = fs::remove_dir(&group);
        }
        Ok((files, bytes))
    }

    /// The path of a file of a group.
    pub(super) fn file(&self, group: &str, name: &str) -> PathBuf {
        self.path.join(group).join(name)
    }

    /// Writes a file of a group under another name, and renames it. Returns its bytes. If it exists already, it only
    /// counts as used, and 0 is returned.
    ///
    /// # Errors
    /// It cannot be written; nothing is left of it then.
    pub(super) fn put(
        &self,
        group: &str,
        name: &str,
        write: &dyn Fn(&mut dyn Write) -> io::Result<()>,
    ) -> io::Result<u64> {
        let target = self.file(group, name);
        if target.try_exists()? {
            touch(&target);
            return Ok(0);
        }
        let folder = self.path.join(group);
        match write_as(&folder, &target, write) {
            // The folder does not exist yet, or another process has just removed it, because it was empty.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                fs::create_dir_all(&folder)?;
                write_as(&folder, &target, write)
            }
            other => other,
        }
    }

    /// Writes what a group is of.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn describe(&self, group: &str, about: &CacheGroup) -> io::Result<u64> {
        let text = serde_json::to_vec(about).map_err(io::Error::other)?;
        self.put(group, ABOUT, &|out| out.write_all(&text))
    }

    /// All files of the cache.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub(super) fn entries(&self) -> io::Result<Vec<CacheEntry>> {
        let mut all = Vec::new();
        for group in self.groups()? {
            all.append(&mut entries_of(&group)?);
        }
        Ok(all)
    }

    /// Removes leftovers of processes that were killed, files that were not used for `max_age`, and, if there are more
    /// than `max_bytes`, those used least recently. Returns the bytes that stay and the number of removed files; `None`
    /// if another process does the same now.
    ///
    /// # Errors
    /// The folder cannot be read or written.
    pub(super) fn evict(&self, max_bytes: u64, max_age: Option<Duration>) -> io::Result<Option<(u64, u64)>> {
        let Some(_lock) = FileLock::try_at(self.path.join(LOCK))? else { return Ok(None) };
        let now = SystemTime::now();
        let age = |entry: &CacheEntry| now.duration_since(entry.used).unwrap_or_default();
        let is_old = |entry: &CacheEntry| match entry.role {
            EntryRole::Part => age(entry) > LEFTOVER_AGE,
            EntryRole::About => false,
            _ => max_age.is_some_and(|most| age(entry) > most),
        };
        let (old, mut rest): (Vec<_>, Vec<_>) = self.entries()?.into_iter().partition(is_old);
        let mut removed = 0;
        for entry in old {
            removed += u64::from(gone(fs::remove_file(&entry.path))?);
        }
        let mut bytes: u64 = rest.iter().map(|entry| entry.bytes).sum();
        if bytes > max_bytes {
            // A tenth more, so that this happens seldom.
            let enough = max_bytes - max_bytes / 10;
            rest.retain(|entry| matches!(entry.role, EntryRole::Rows(_) | EntryRole::Snapshot(_)));
            rest.sort_by_key(|entry| (minute(entry.used), std::cmp::Reverse(entry.role.depth())));
            for entry in rest {
                if bytes <= enough {
                    break;
                }
                removed += u64::from(gone(fs::remove_file(&entry.path))?);
                bytes = bytes.saturating_sub(entry.bytes);
            }
        }
        self.remove_empty_groups()?;
        Ok(Some((bytes, removed)))
    }

    /// Removes groups without blocks.
    fn remove_empty_groups(&self) -> io::Result<()> {
        for group in self.groups()? {
            let entries = entries_of(&group)?;
            if let [CacheEntry { role: EntryRole::About, path, .. }] = &entries[..] {
                gone(fs::remove_file(path))?;
                let _ = fs::remove_dir(&group);
            }
        }
        Ok(())
    }

    /// The folders of groups.
    fn groups(&self) -> io::Result<Vec<PathBuf>> {
        let mut groups = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            let name = entry.file_name();
            if is_hex(name.to_str().unwrap_or_default(), GROUP_DIGITS) && entry.file_type()?.is_dir() {
                groups.push(entry.path());
            }
        }
        Ok(groups)
    }
}

/// Marks a file as used now. A folder that cannot be written is no reason to stop.
pub(super) fn touch(path: &Path) {
    let touched = File::open(path).and_then(|file| file.set_modified(SystemTime::now()));
    if let Err(error) = touched {
        tracing::debug!(path = %path.display(), %error, "cannot set the time of use");
    }
}

/// Writes a file and renames it to `target`.
fn write_as(
    folder: &Path,
    target: &Path,
    write: &dyn Fn(&mut dyn Write) -> io::Result<()>,
) -> io::Result<u64> {
    // Processes in several containers may have the same id, so the time is in the name, too.
    let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let path = folder.join(format!("{}-{}.part", std::process::id(), time.as_nanos()));
    let mut file = File::options().write(true).create_new(true).open(&path)?;
    let written = write(&mut file).and_then(|()| file.metadata()).map(|found| found.len());
    drop(file);
    let renamed = written.and_then(|bytes| fs::rename(&path, target).map(|()| bytes));
    if renamed.is_err() {
        let _ = fs::remove_file(&path);
    }
    renamed
}

/// Whether a file was removed here; one that is gone already is no error.
fn gone(removed: io::Result<()>) -> io::Result<bool> {
    match removed {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn minute(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs() / 60
}

/// Seconds since 1970.
fn in_seconds<S: serde::Serializer>(time: &Option<SystemTime>, to: S) -> Result<S::Ok, S::Error> {
    let seconds = time.and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok());
    serde::Serialize::serialize(&seconds.map(|time| time.as_secs()), to)
}

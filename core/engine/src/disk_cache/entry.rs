//! [`CacheEntry`]: a file of a disk cache, recognized by its name.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Digits of an address.
const ADDRESS_DIGITS: usize = 64;

/// What a group is of.
pub(super) const ABOUT: &str = "about.json";

/// A file of the cache.
pub(super) struct CacheEntry {
    pub(super) path: PathBuf,
    pub(super) bytes: u64,
    pub(super) used: SystemTime,
    pub(super) role: EntryRole,
}

/// What a file is, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EntryRole {
    /// A block, with the number of blocks up to its end.
    Rows(usize),
    /// A snapshot, with the number of blocks before it.
    Snapshot(usize),
    /// A file that is being written, or was when its process was killed.
    Part,
    /// What the group is of.
    About,
}

impl EntryRole {
    /// What the file of this name in a group is; `None` if it is not of a cache.
    fn of(name: &str) -> Option<Self> {
        if name == ABOUT {
            return Some(Self::About);
        }
        let (stem, extension) = name.rsplit_once('.')?;
        let (first, number) = stem.split_once('-')?;
        if extension == "part" {
            let is_part = first.parse::<u32>().is_ok() && number.parse::<u128>().is_ok();
            return is_part.then_some(Self::Part);
        }
        let number: usize = number.parse().ok()?;
        match extension {
            "rows" if is_hex(first, ADDRESS_DIGITS) => Some(Self::Rows(number)),
            "snapshot" if is_hex(first, ADDRESS_DIGITS) => Some(Self::Snapshot(number)),
            _ => None,
        }
    }

    /// The number of blocks up to its end: of files that were used in the same minute, the end of a prompt is removed
    /// before its beginning, without which it is useless.
    pub(super) fn depth(self) -> usize {
        match self {
            Self::Rows(depth) | Self::Snapshot(depth) => depth,
            Self::Part | Self::About => 0,
        }
    }
}

/// The files of a group that are of a cache.
pub(super) fn entries_of(group: &Path) -> io::Result<Vec<CacheEntry>> {
    let mut entries = Vec::new();
    let found = match fs::read_dir(group) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(entries),
        other => other?,
    };
    for entry in found {
        let entry = entry?;
        let Some(role) = EntryRole::of(entry.file_name().to_str().unwrap_or_default()) else { continue };
        match entry.metadata() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            other => {
                let found = other?;
                if found.is_file() {
                    let (bytes, used) = (found.len(), found.modified()?);
                    entries.push(CacheEntry { path: entry.path(), bytes, used, role });
                }
            }
        }
    }
    Ok(entries)
}

pub(super) fn is_hex(name: &str, digits: usize) -> bool {
    name.len() == digits && name.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

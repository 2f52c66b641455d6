//! [`Transfer`]: downloads one file of the hub into the cache, complete and verified, or not at all.

use crate::cache::RepositoryCache;
use crate::checksum::Checksum;
use crate::client::{BytesResponse, Client, RemoteFile};
use crate::progress::readable_bytes;
use crate::{Cause, HubError, Progress};
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

/// The download of one file: `<etag>.part` grows, is verified, and becomes the blob `<etag>`.
pub(crate) struct Transfer<'a> {
    pub(crate) client: &'a Client,
    pub(crate) cache: &'a RepositoryCache,
    pub(crate) file: &'a RemoteFile,
    pub(crate) progress: &'a mut dyn Progress,
}

/// The reason why a request ended before the end of the file.
enum Stop {
    /// An error of the hub or the network.
    Remote(Cause),
    /// An error of this machine.
    Local(HubError),
}

impl Transfer<'_> {
    /// Makes sure that the blob exists and is valid; waits for other processes that download the same file.
    ///
    /// # Errors
    /// The lock cannot be taken, the hub does not answer, the disk is full, or the checksum differs.
    pub(crate) fn run(&mut self) -> Result<(), HubError> {
        let etag = &self.file.etag;
        let _lock = self.cache.lock(etag, &self.file.title, self.progress)?;
        let (blob, part) = (self.cache.blob(etag), self.cache.part(etag));
        if blob.exists() {
            match self.verify(&blob) {
                Ok(()) => return Ok(()),
                Err(HubError::Damaged { reason, .. }) => self.progress.note(&format!(
                    "{}: the copy on this machine is damaged ({reason}); downloading it again",
                    self.file.title
                )),
                Err(other) => return Err(other),
            }
        }
        if self.file.bytes.is_some_and(|bytes| length(&part) > bytes) {
            self.put_aside(&part)?;
            self.progress.note(&format!(
                "{}: an earlier partial download is longer than the file; starting again",
                self.file.title
            ));
        }
        let resumed = length(&part) > 0;
        self.fetch(&part)?;
        match self.verify(&part) {
            Err(HubError::Damaged { reason, .. }) if resumed => {
                self.progress.note(&format!(
                    "{}: an earlier partial download was damaged ({reason}); starting again",
                    self.file.title
                ));
                self.fetch(&part)?;
                self.verify(&part)?;
            }
            other => other?,
        }
        std::fs::rename(&part, &blob).map_err(HubError::io(&blob))?;
        // A damaged download of an earlier attempt is no longer needed.
        let _ = std::fs::remove_file(self.cache.aside(etag));
        Ok(())
    }

    /// Verifies length and checksum; a file that differs is renamed.
    fn verify(&mut self, path: &Path) -> Result<(), HubError> {
        let found = length(path);
        let reason = match self.file.bytes {
            Some(bytes) if bytes != found => Some(format!("{found} bytes, expected {bytes}")),
            _ => match Checksum::of_name(&self.file.etag) {
                None => {
                    self.progress.note(&format!(
                        "{}: the hub has no checksum for it (its ETag is `{}`); only its length was verified",
                        self.file.title, self.file.etag
                    ));
                    None
                }
                Some(checksum) => match checksum.check(path, &self.file.title, self.progress) {
                    Ok(()) => None,
                    Err(HubError::Checksum { kind, expected, found, .. }) => {
                        Some(format!("{kind} is {found}, expected {expected}"))
                    }
                    Err(other) => return Err(other),
                },
            },
        };
        let Some(reason) = reason else { return Ok(()) };
        let aside = self.put_aside(path)?;
        Err(HubError::Damaged { file: self.file.title.clone(), reason, aside })
    }

    fn put_aside(&self, path: &Path) -> Result<PathBuf, HubError> {
        let aside = self.cache.aside(&self.file.etag);
        std::fs::rename(path, &aside).map_err(HubError::io(path))?;
        Ok(aside)
    }

    /// Downloads the missing bytes; resumes interrupted connections as long as there is progress.
    fn fetch(&mut self, part: &Path) -> Result<(), HubError> {
        let mut fruitless = 0;
        loop {
            let before = length(part);
            if before > 0 && self.file.bytes == Some(before) {
                return Ok(());
            }
            let stretch = self.stretch(part, before);
            self.progress.end();
            let cause = match stretch {
                Ok(()) => return Ok(()),
                Err(Stop::Local(error)) => return Err(error),
                Err(Stop::Remote(cause)) => cause,
            };
            fruitless = if length(part) > before { 0 } else { fruitless + 1 };
            if !cause.is_transient() || fruitless > self.client.timeouts().retries {
                let kept = match length(part) {
                    0 => String::new(),
                    bytes => {
                        format!("; {} are kept, and the next pull resumes from there", readable_bytes(bytes))
                    }
                };
                return Err(self.client.error(self.file.title.clone(), cause, kept));
            }
            let here = readable_bytes(length(part));
            self.progress.note(&format!("{}: {cause}; trying again (after {here})", self.file.title));
            std::thread::sleep(self.client.pause(fruitless, &cause));
        }
    }

    /// Sends one request and writes its data.
    fn stretch(&mut self, part: &Path, have: u64) -> Result<(), Stop> {
        let (start, total, mut body) = match self.client.bytes(self.file, have).map_err(Stop::Remote)? {
            BytesResponse::From { start, total, body } => (start, total, body),
            BytesResponse::PastEnd { total } if total == Some(have) => return Ok(()),
            BytesResponse::PastEnd { .. } => {
                std::fs::remove_file(part).map_err(|error| Stop::Local(HubError::io(part)(error)))?;
                return Err(Stop::Remote(Cause::Broken(
                    "the file on the hub is shorter than the download".to_owned(),
                )));
            }
        };
        let expected = self.file.bytes.or(total);
        if let (Some(promised), Some(total)) = (self.file.bytes, total)
            && promised != total
        {
            let reason = format!("{total} bytes instead of {promised}");
            return Err(Stop::Remote(Cause::Changed(reason)));
        }
        if start > have {
            return Err(Stop::Remote(Cause::Broken("the hub returned another range".to_owned())));
        }
        let mut file = self.open(part, start).map_err(Stop::Local)?;
        self.progress.begin(&format!("downloading {}", self.file.title), expected, start);
        let written = self.copy(&mut *body, &mut file, part, start)?;
        match expected {
            Some(expected) if written < expected => {
                Err(Stop::Remote(Cause::Broken(format!("it ended after {written} of {expected} bytes"))))
            }
            _ => Ok(()),
        }
    }

    /// Opens the partial file, truncated to the bytes that are kept.
    fn open(&self, part: &Path, start: u64) -> Result<File, HubError> {
        use std::io::{Seek, SeekFrom};
        // Another process may have removed the empty folder.
        let folder = part.parent().unwrap_or(part);
        std::fs::create_dir_all(folder).map_err(HubError::folder(folder))?;
        let opened = File::options().create(true).truncate(false).write(true).open(part);
        let mut file = opened.map_err(HubError::folder(part))?;
        if length(part) > start {
            file.set_len(start).map_err(HubError::io(part))?;
        }
        file.seek(SeekFrom::Start(start)).map_err(HubError::io(part))?;
        Ok(file)
    }

    /// Copies `body` to the file; returns the length of the file.
    fn copy(&mut self, body: &mut dyn Read, file: &mut File, part: &Path, start: u64) -> Result<u64, Stop> {
        let mut written = start;
        let mut buffer = vec![0u8; 1 << 18];
        loop {
            let read = match body.read(&mut buffer) {
                Ok(read) => read,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(Stop::Remote(self.client.cause(error.into()))),
            };
            if read == 0 {
                break;
            }
            file.write_all(&buffer[..read]).map_err(|error| Stop::Local(writing(part, error)))?;
            written += read as u64;
            if self.progress.advance(read as u64).is_break() {
                return Err(Stop::Local(HubError::Stopped));
            }
        }
        file.sync_all().map_err(|error| Stop::Local(writing(part, error)))?;
        Ok(written)
    }
}

fn writing(part: &Path, error: std::io::Error) -> HubError {
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
            HubError::DiskFull { path: part.to_owned(), kept: readable_bytes(length(part)), source: error }
        }
        _ => HubError::io(part)(error),
    }
}

/// The size of a file; 0 if it does not exist.
pub(crate) fn length(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |metadata| metadata.len())
}

//! [`Lock`]: the plugins that may be loaded, with the SHA-256 of their files.

use crate::error::PluginFault;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// The file `plugins.lock`: a line `author/name = "sha256"` for each plugin, and comments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lock {
    sums: BTreeMap<String, String>,
}

/// A lock that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{}: {reason}", .path.display(), .line.map(|line| format!(":{line}")).unwrap_or_default())]
pub struct LockError {
    /// The file.
    pub path: PathBuf,
    /// Line, from 1.
    pub line: Option<usize>,
    /// The reason.
    pub reason: String,
}

impl Lock {
    /// Reads a lock; a missing file is an empty lock.
    ///
    /// # Errors
    /// The file cannot be read, or a line is invalid.
    pub fn read(path: impl AsRef<Path>) -> Result<Lock, LockError> {
        let path = path.as_ref();
        let failed =
            |line, reason: &str| LockError { path: path.to_owned(), line, reason: reason.to_owned() };
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Lock::default()),
            Err(error) => return Err(failed(None, &error.to_string())),
        };
        let mut lock = Lock::default();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let pair = line.split_once('=').map(|(id, sum)| (id.trim(), sum.trim().trim_matches('"')));
            let Some((id, sum)) = pair.filter(|(id, sum)| !id.is_empty() && is_sum(sum)) else {
                return Err(failed(
                    Some(index + 1),
                    "expected a line `author/name = \"64 hexadecimal digits\"`",
                ));
            };
            if lock.sums.insert(id.to_owned(), sum.to_owned()).is_some() {
                return Err(failed(
                    Some(index + 1),
                    "the plugin is already on an earlier line; remove one of them",
                ));
            }
        }
        Ok(lock)
    }

    /// The SHA-256 that a plugin must have.
    pub fn get(&self, id: &str) -> Option<&str> {
        self.sums.get(id).map(String::as_str)
    }

    /// Locks a plugin to a SHA-256; returns the previous one.
    pub fn set(&mut self, id: &str, sha256: &str) -> Option<String> {
        self.sums.insert(id.to_owned(), sha256.to_owned())
    }

    /// Removes a plugin; returns its SHA-256.
    pub fn remove(&mut self, id: &str) -> Option<String> {
        self.sums.remove(id)
    }

    /// The text of the file.
    pub fn text(&self) -> String {
        let mut text = String::from(
            "# Plugins that may be loaded with --plugins-locked, by the SHA-256 of their files.\n",
        );
        for (id, sum) in &self.sums {
            let _ = writeln!(text, "{id} = \"{sum}\"");
        }
        text
    }

    /// Checks that a file is the locked one.
    ///
    /// # Errors
    /// [`PluginFault::Trust`].
    pub(crate) fn check(&self, id: &str, sha256: &str) -> Result<(), PluginFault> {
        match self.get(id) {
            Some(sum) if sum == sha256 => Ok(()),
            Some(sum) => Err(PluginFault::Trust(format!(
                "its file has the SHA-256 {sha256}, and plugins.lock has {sum} for {id}; if it was replaced intentionally, trust it again with `menagerie plugin trust`"
            ))),
            None => Err(PluginFault::Trust(format!(
                "plugins.lock does not list {id}, and only listed plugins are loaded; trust it with `menagerie plugin trust` (SHA-256 {sha256}) or remove it"
            ))),
        }
    }
}

fn is_sum(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

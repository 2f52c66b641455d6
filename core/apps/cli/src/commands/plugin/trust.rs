//! `plugin trust FILE`: locks a plugin to its bytes.

use crate::arguments::plugins::lock;
use crate::failure::Failure;
use crate::output;
use clap::Args;
use menagerie::files::AtomicFile;
use menagerie::files::path_text;
use menagerie::plugin_host::{Lock, inspect, sha256_of};
use serde_json::json;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Lock a plugin to the current bytes of its file, for --plugins-locked
///
/// Writes its id and SHA-256 to plugins.lock in the configuration folder. The plugin's code does not run. If the file
/// changes, it is refused until it is trusted again.
#[derive(Args)]
pub(crate) struct PluginTrustCommand {
    /// The plugin's file
    file: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl PluginTrustCommand {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let (found, sha256) = (inspect(&self.file)?, sha256_of(&self.file)?);
        let (mut lock, path) = lock()?;
        let before = lock.set(&found.id, &sha256);
        write(&lock, &path)?;
        if self.json {
            let value =
                json!({ "id": found.id, "sha256": sha256, "before": before, "lock": path_text(&path) });
            return output::json(&value);
        }
        let replaced = match before {
            Some(before) if before == sha256 => " (as before)".to_owned(),
            Some(before) => format!(" (before: {before})"),
            None => String::new(),
        };
        output::line(&format!("{} is locked to {sha256}{replaced} in {}", found.id, path.display()))
    }
}

/// Writes the lock, whole or not at all.
pub(super) fn write(lock: &Lock, path: &Path) -> Result<(), Failure> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(|error| Failure::about(folder.display(), error))?;
    }
    let mut file = AtomicFile::create(path)?;
    file.write_all(lock.text().as_bytes()).map_err(|error| Failure::about(path.display(), error))?;
    Ok(file.commit()?)
}

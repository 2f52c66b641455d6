//! `plugin remove ID`: removes a plugin's file and its line in the lock.

use super::trust::write;
use crate::arguments::plugins::{PluginArguments, lock};
use crate::failure::Failure;
use crate::output;
use clap::Args;
use menagerie::plugin_host::inspect;
use serde_json::json;
use std::path::PathBuf;

/// Remove a plugin: its file in the folders of --plugin-dir, and its line in plugins.lock
///
/// The file is identified by the id in it; its code does not run.
#[derive(Args)]
pub(crate) struct PluginRemoveCommand {
    /// The plugin's id, AUTHOR/NAME
    id: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl PluginRemoveCommand {
    pub(crate) fn run(self, arguments: &PluginArguments) -> Result<(), Failure> {
        let (mut lock, path) = lock()?;
        let is_it = |file: &PathBuf| inspect(file).is_ok_and(|found| found.id == self.id);
        let files: Vec<PathBuf> = arguments.files()?.into_iter().filter(is_it).collect();
        let locked = lock.remove(&self.id);
        if files.is_empty() && locked.is_none() {
            let message = format!(
                "there is no plugin `{}` in a folder of --plugin-dir or in {}",
                self.id,
                path.display()
            );
            return Err(Failure::Failed(message)
                .with_help("name its folder: menagerie --plugin-dir DIR plugin remove AUTHOR/NAME"));
        }
        for file in &files {
            std::fs::remove_file(file).map_err(|error| Failure::about(file.display(), error))?;
        }
        if locked.is_some() {
            write(&lock, &path)?;
        }
        if self.json {
            return output::json(&json!({ "id": self.id, "files": files, "sha256": locked }));
        }
        for file in &files {
            output::line(&format!("removed {}", file.display()))?;
        }
        if locked.is_some() {
            output::line(&format!("removed {} from {}", self.id, path.display()))?;
        }
        Ok(())
    }
}

//! `plugin inspect FILE`: the description in a plugin file.

use super::list::locked;
use crate::arguments::plugins::lock;
use crate::failure::Failure;
use crate::output;
use clap::Args;
use menagerie::files::path_text;
use menagerie::plugin_host::{PanicStrategy, inspect, sha256_of};
use serde_json::json;
use std::path::PathBuf;

/// Show the description in a plugin file, without running its code
///
/// The file is read, not loaded as a library. Prints the id, versions, target, toolchain, required capabilities, and the
/// SHA-256 that `plugin trust` would lock; for a file that would be refused, the reason.
#[derive(Args)]
pub(crate) struct PluginInspectCommand {
    /// The plugin's file
    file: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl PluginInspectCommand {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let (found, sha256) = (inspect(&self.file)?, sha256_of(&self.file)?);
        let lock = lock().map(|(lock, _)| lock).unwrap_or_default();
        let trust = locked(&lock, &found.id, &sha256);
        if self.json {
            let mut value = json!(found);
            value["file"] = json!(path_text(&self.file));
            value["sha256"] = json!(sha256);
            value["lock"] = json!(trust);
            return output::json(&value);
        }
        // A plugin without the SDK is not written in Rust: it has no panics.
        let panics = match found.panics {
            PanicStrategy::Abort => "end the process",
            PanicStrategy::Unwind if found.sdk.is_empty() => "",
            PanicStrategy::Unwind => "are caught",
        };
        let needs = if found.capabilities.is_empty() { "nothing" } else { &found.capabilities.join(", ") };
        let rows = [
            ("plugin", format!("{} {}", found.id, found.version)),
            ("plugin ABI", found.abi.clone()),
            ("SDK", found.sdk.clone()),
            ("built with", found.toolchain.clone()),
            ("built for", found.target.clone()),
            ("needs", needs.to_owned()),
            ("instructions", found.cpu_features.join(", ")),
            ("panics", panics.to_owned()),
            ("SHA-256", sha256),
            ("plugins.lock", trust.to_owned()),
        ];
        // Empty rows are left out.
        let mut said = rows.iter().filter(|(_, value)| !value.is_empty());
        said.try_for_each(|(name, value)| output::line(&format!("{name:<13} {value}")))
    }
}

//! `plugin inspect FILE`: what a file says of itself.

use super::list::locked;
use crate::failure::Failure;
use crate::output;
use crate::plugin_arguments::lock;
use clap::Args;
use menagerie::plugin_host::{inspect, sha256_of};
use serde_json::json;
use std::path::PathBuf;

/// Show what a plugin's file says of itself; nothing of it runs
///
/// Read from the file, without opening it as a library: id, versions, what it was built for and with, what it needs, and
/// the SHA-256 that `plugin trust` would lock. Refused files are said with the reason.
#[derive(Args)]
pub(crate) struct InspectCommand {
    /// The plugin's file
    file: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl InspectCommand {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let (found, sha256) = (inspect(&self.file)?, sha256_of(&self.file)?);
        let lock = lock().map(|(lock, _)| lock).unwrap_or_default();
        let trust = locked(&lock, &found.id, &sha256);
        if self.json {
            let mut value = json!(found);
            value["file"] = json!(self.file);
            value["sha256"] = json!(sha256);
            value["lock"] = json!(trust);
            return output::json(&value);
        }
        let listed =
            |names: &[String]| if names.is_empty() { "nothing".to_owned() } else { names.join(", ") };
        let panics = json!(found.panics);
        let rows = [
            ("plugin", format!("{} {}", found.id, found.version)),
            ("plugin ABI", found.abi.clone()),
            ("SDK", if found.sdk.is_empty() { "none".to_owned() } else { found.sdk.clone() }),
            ("built with", found.toolchain.clone()),
            ("built for", found.target.clone()),
            ("needs", listed(&found.capabilities)),
            ("instructions", listed(&found.cpu_features)),
            ("panics", panics.as_str().unwrap_or_default().to_owned()),
            ("SHA-256", sha256),
            ("plugins.lock", trust.to_owned()),
        ];
        rows.iter().try_for_each(|(name, value)| output::line(format!("{name:<13} {value}").trim_end()))
    }
}

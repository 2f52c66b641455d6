//! `cache`: what the folder of `--cache` holds.

use crate::commands::{CommandContext, Runnable};
use crate::failure::Failure;
use crate::output;
use clap::{Args, Subcommand};
use menagerie::engine::{CacheFolder, CacheListing};
use menagerie::files::path_text;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// List or clear the states that --cache stored in a folder
#[derive(Args)]
pub(crate) struct CacheCommand {
    #[command(subcommand)]
    action: CacheAction,
    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Subcommand)]
enum CacheAction {
    /// List the stored states, by model and options, those used last first
    List {
        /// The folder
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
    /// Remove all stored states
    ///
    /// Nothing else in the folder is removed. Commands that use the folder now compute what they no longer find.
    Clear {
        /// The folder
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
}

impl Runnable for CacheCommand {
    fn run(self, _: &CommandContext) -> Result<(), Failure> {
        match &self.action {
            CacheAction::List { folder } => list(folder, self.json),
            CacheAction::Clear { folder } => clear(folder, self.json),
        }
    }
}

/// The cache in a folder that exists.
fn opened(folder: &Path) -> Result<CacheFolder, Failure> {
    if !folder.is_dir() {
        return Err(Failure::about(folder.display(), "there is no such folder")
            .with_help("name the folder that was given with --cache"));
    }
    Ok(CacheFolder::open(folder)?)
}

fn list(folder: &Path, json: bool) -> Result<(), Failure> {
    let listing = opened(folder)?.listing()?;
    let bytes: u64 = listing.iter().map(|one| one.bytes).sum();
    if json {
        return output::json(&json!({ "path": path_text(folder), "bytes": bytes, "models": listing }));
    }
    if listing.is_empty() {
        return output::line("the folder has no stored states");
    }
    let unknown = || "unknown".to_owned();
    let row = |one: &CacheListing| {
        vec![
            one.architecture.clone().unwrap_or_else(unknown),
            one.options.clone().unwrap_or_else(unknown),
            one.tokens.map_or_else(unknown, |tokens| tokens.to_string()),
            output::bytes(one.bytes),
            one.last_used.map_or_else(unknown, ago),
        ]
    };
    let rows: Vec<_> = listing.iter().map(row).collect();
    output::table(&["architecture", "options", "tokens", "size", "used"], &rows)
}

fn clear(folder: &Path, json: bool) -> Result<(), Failure> {
    let (files, bytes) = opened(folder)?.clear()?;
    if json {
        return output::json(&json!({ "path": path_text(folder), "files": files, "bytes": bytes }));
    }
    output::line(&format!("removed {} ({})", output::counted(files, "file"), output::bytes(bytes)))
}

/// How long ago a time is.
fn ago(time: SystemTime) -> String {
    let minutes = SystemTime::now().duration_since(time).unwrap_or_default().as_secs() / 60;
    let (count, unit) = match minutes {
        0 => return "now".to_owned(),
        1..60 => (minutes, "minute"),
        60..1440 => (minutes / 60, "hour"),
        _ => (minutes / 1440, "day"),
    };
    format!("{} ago", output::counted(count as usize, unit))
}

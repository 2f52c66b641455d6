//! `version`: the same as `--version`.

use crate::commands::{CommandContext, Runnable};
use crate::failure::Failure;
use crate::{output, version};
use clap::Args;

/// Print the version, as --version does
#[derive(Args)]
#[command(hide = true)]
pub(crate) struct VersionCommand {}

impl Runnable for VersionCommand {
    fn run(self, _: &CommandContext) -> Result<(), Failure> {
        output::line(&format!("menagerie {}", version::long()))
    }

    fn uses_plugins(&self) -> bool {
        false
    }
}

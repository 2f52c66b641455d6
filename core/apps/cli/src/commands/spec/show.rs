//! `spec show SPEC`: prints a spec, with or without the specs that it extends.

use crate::arguments::name_or_path::NameOrPath;
use crate::arguments::spec_reference::require_spec;
use crate::arguments::specs::SpecArguments;
use crate::commands::show::print_architecture;
use crate::failure::Failure;
use clap::Args;
use menagerie::registry::Environment;

/// Print a spec and its summary
#[derive(Args)]
pub(crate) struct SpecShowCommand {
    /// Id of an architecture, or a spec file
    spec: NameOrPath,
    /// Merge the specs that it extends, and show the origin of each line
    #[arg(long)]
    merged: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    specs: SpecArguments,
}

impl SpecShowCommand {
    pub(crate) fn run(self, installed: &Environment) -> Result<(), Failure> {
        print_architecture(&require_spec(&self.spec, &self.specs, installed)?.entry, self.merged, self.json)
    }
}

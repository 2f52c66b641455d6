//! `spec`: commands for writing specs.

mod check;
mod diff;
mod draft;
mod explain;
mod kinds;
mod show;

pub(crate) use check::check;

use crate::commands::{CommandContext, Runnable};
use crate::failure::Failure;
use crate::output;
use clap::{Args, Subcommand};
use menagerie::spec::json_schema;

/// Write, check, compare and explain specs of architectures
///
/// A spec is a TOML file that defines an architecture. `spec new MODEL` drafts one, `spec check FILE.toml` reports its
/// errors, and `check MODEL --spec FILE.toml` checks it against a model. A SPEC is the id of an architecture (see
/// `menagerie list`) or a file.
#[derive(Args)]
pub(crate) struct SpecCommand {
    #[command(subcommand)]
    verb: SpecAction,
}

#[derive(Subcommand)]
enum SpecAction {
    New(draft::SpecNewCommand),
    Check(check::SpecCheckCommand),
    Show(show::SpecShowCommand),
    Diff(diff::DiffCommand),
    Explain(explain::ExplainCommand),
    Kinds(kinds::KindsCommand),
    /// Print the JSON Schema of specs for editors
    Schema {
        /// Print JSON, which is the only format
        #[arg(long)]
        json: bool,
    },
}

impl Runnable for SpecCommand {
    fn run(self, context: &CommandContext) -> Result<(), Failure> {
        let installed = &context.environment;
        match self.verb {
            SpecAction::New(command) => command.run(installed),
            SpecAction::Check(command) => command.run(installed),
            SpecAction::Show(command) => command.run(installed),
            SpecAction::Diff(command) => command.run(installed),
            SpecAction::Explain(command) => command.run(installed),
            SpecAction::Kinds(command) => command.run(installed),
            // A JSON Schema document, not this program's own JSON: it has no version of the output.
            SpecAction::Schema { json: _ } => {
                let schema = json_schema(&installed.components().kinds()?);
                output::line(&serde_json::to_string_pretty(&schema)?)
            }
        }
    }

    fn tries_plugins(&self) -> bool {
        matches!(self.verb, SpecAction::Check(_))
    }
}

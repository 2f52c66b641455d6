//! `spec`: what the person needs who writes one.

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
/// A spec is a TOML file that says what an architecture is made of. `spec new MODEL` drafts one, `spec check FILE.toml`
/// says what is wrong with it, `check MODEL --spec FILE.toml` how it fits a model. Wherever a SPEC is wanted it may be the
/// id of an architecture (`menagerie list`) or a file.
#[derive(Args)]
pub(crate) struct SpecCommand {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    New(draft::NewCommand),
    Check(check::SpecCheckCommand),
    Show(show::SpecShowCommand),
    Diff(diff::DiffCommand),
    Explain(explain::ExplainCommand),
    Kinds(kinds::KindsCommand),
    /// Print the JSON Schema of specs, for editors
    Schema {
        /// Print JSON: there is no other form
        #[arg(long)]
        json: bool,
    },
}

impl Runnable for SpecCommand {
    fn run(self, context: &CommandContext) -> Result<(), Failure> {
        let installed = &context.environment;
        match self.verb {
            Verb::New(command) => command.run(installed),
            Verb::Check(command) => command.run(installed),
            Verb::Show(command) => command.run(installed),
            Verb::Diff(command) => command.run(installed),
            Verb::Explain(command) => command.run(installed),
            Verb::Kinds(command) => command.run(installed),
            // A document of the JSON Schema language, not of ours: it has no version of the output.
            Verb::Schema { json: _ } => {
                let schema = json_schema(&installed.components().kinds()?);
                output::line(&serde_json::to_string_pretty(&schema)?)
            }
        }
    }

    fn tries_plugins(&self) -> bool {
        matches!(self.verb, Verb::Check(_))
    }
}

//! `plugin`: lists, inspects, checks, creates, locks and removes plugins.

mod cases;
mod check;
mod hook_trial;
mod inspect;
mod list;
mod new;
mod remove;
mod trial;
mod trust;

use crate::commands::{CommandContext, Runnable};
use crate::failure::Failure;
use clap::{Args, Subcommand};

/// List, inspect, check, create, trust and remove plugins
///
/// A plugin is a library with components (mixers, norms, samplers, ...) that specs and options name as
/// author/name:component. It is native code with your permissions: load only plugins that you trust. None is loaded unless
/// --plugin-dir, its variable or the configuration file names it.
#[derive(Args)]
pub(crate) struct PluginCommand {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    List(list::ListCommand),
    Inspect(inspect::InspectCommand),
    Check(check::CheckCommand),
    New(new::NewCommand),
    Trust(trust::TrustCommand),
    Remove(remove::RemoveCommand),
}

impl Runnable for PluginCommand {
    // Only `list` and `check` load plugins; `check` loads the one that it names.
    fn run(self, context: &CommandContext) -> Result<(), Failure> {
        match self.verb {
            Verb::List(command) => command.run(&context.plugins),
            Verb::Inspect(command) => command.run(),
            Verb::Check(command) => command.run(&context.environment),
            Verb::New(command) => command.run(),
            Verb::Trust(command) => command.run(),
            Verb::Remove(command) => command.run(&context.plugins),
        }
    }

    fn tries_plugins(&self) -> bool {
        matches!(self.verb, Verb::Check(_))
    }

    fn uses_plugins(&self) -> bool {
        false
    }
}

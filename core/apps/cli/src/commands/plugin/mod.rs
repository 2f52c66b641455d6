//! `plugin`: plugins looked at, checked, locked, removed and begun.

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

/// List, inspect, check, begin, trust and remove plugins
///
/// A plugin is a library with components (mixers, norms, samplers, ..) that specs and options name as author/name:component.
/// It is code that may do all that you may: load only what you trust. Nothing is loaded unless --plugin-dir, its variable
/// or the configuration file says so.
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
    /// Only `list` and `check` load plugins, the latter the one that it names.
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

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
    verb: PluginAction,
}

#[derive(Subcommand)]
enum PluginAction {
    List(list::PluginListCommand),
    Inspect(inspect::PluginInspectCommand),
    Check(check::PluginCheckCommand),
    New(new::PluginNewCommand),
    Trust(trust::PluginTrustCommand),
    Remove(remove::PluginRemoveCommand),
}

impl Runnable for PluginCommand {
    // Only `list` and `check` load plugins; `check` loads the one that it names.
    fn run(self, context: &CommandContext) -> Result<(), Failure> {
        match self.verb {
            PluginAction::List(command) => command.run(&context.plugins),
            PluginAction::Inspect(command) => command.run(),
            PluginAction::Check(command) => command.run(&context.environment),
            PluginAction::New(command) => command.run(),
            PluginAction::Trust(command) => command.run(),
            PluginAction::Remove(command) => command.run(&context.plugins),
        }
    }

    fn tries_plugins(&self) -> bool {
        matches!(self.verb, PluginAction::Check(_))
    }

    fn uses_plugins(&self) -> bool {
        false
    }
}

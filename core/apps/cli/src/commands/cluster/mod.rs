//! `cluster`: certificates, plans and the state of a cluster.

mod check;
mod drain;
mod joining;
mod keys;
mod layer_sizes;
mod plan;
mod status;

use crate::commands::{CommandContext, Runnable};
use crate::failure::Failure;
use clap::{Args, Subcommand};

/// Make certificates, plan layers, and look at the stages of a cluster
///
/// A cluster is a group of machines that compute a model together: `menagerie stage` serves some layers, and run, chat, batch,
/// bench, logits and serve use them with --cluster.
#[derive(Args)]
pub(crate) struct ClusterCommand {
    #[command(subcommand)]
    verb: ClusterAction,
}

#[derive(Subcommand)]
enum ClusterAction {
    Keys(keys::ClusterKeysCommand),
    Plan(plan::ClusterPlanCommand),
    Status(status::ClusterStatusCommand),
    Check(Box<check::ClusterCheckCommand>),
    Drain(drain::ClusterDrainCommand),
}

impl Runnable for ClusterCommand {
    fn run(self, context: &CommandContext) -> Result<(), Failure> {
        match self.verb {
            ClusterAction::Keys(command) => command.run(),
            ClusterAction::Plan(command) => command.run(context),
            ClusterAction::Status(command) => command.run(),
            ClusterAction::Check(command) => command.run(context),
            ClusterAction::Drain(command) => command.run(),
        }
    }

    fn uses_plugins(&self) -> bool {
        matches!(self.verb, ClusterAction::Plan(_) | ClusterAction::Check(_))
    }
}

//! `control-vector`: creates and shows control vectors.

mod make;
mod show;

use crate::commands::{CommandContext, Runnable};
use crate::failure::Failure;
use clap::{Args, Subcommand};

/// Create and show control vectors, which steer a model while it runs
///
/// A control vector has a direction per layer that is added to the layer's output (--control-vector of `run`, `chat`,
/// `batch`, `logits` and `bench`). The file format is that of llama.cpp's cvector-generator: each program can read the
/// files of the other.
#[derive(Args)]
pub(crate) struct ControlVectorCommand {
    #[command(subcommand)]
    verb: ControlVectorAction,
}

#[derive(Subcommand)]
enum ControlVectorAction {
    Make(Box<make::MakeCommand>),
    Show(show::ShowVectorCommand),
}

impl Runnable for ControlVectorCommand {
    fn run(self, context: &CommandContext) -> Result<(), Failure> {
        match self.verb {
            ControlVectorAction::Make(command) => command.run(&context.environment),
            ControlVectorAction::Show(command) => command.run(),
        }
    }
}

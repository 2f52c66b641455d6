//! `control-vector`: what steers a model without training, made and looked at.

mod make;
mod show;

use crate::commands::{CommandContext, Runnable};
use crate::failure::Failure;
use clap::{Args, Subcommand};

/// Make and look at control vectors, which steer a model while it runs
///
/// A control vector is a direction per layer that is added to what the layer leaves (--control-vector of `run`, `chat`,
/// `logits` and `bench`). The files are those of llama.cpp's cvector-generator: either program reads what the other made.
#[derive(Args)]
pub(crate) struct ControlVectorCommand {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    Make(Box<make::MakeCommand>),
    Show(show::ShowVectorCommand),
}

impl Runnable for ControlVectorCommand {
    fn run(self, context: &CommandContext) -> Result<(), Failure> {
        match self.verb {
            Verb::Make(command) => command.run(&context.environment),
            Verb::Show(command) => command.run(),
        }
    }
}

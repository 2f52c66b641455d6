//! The `menagerie` command line: one file per command under `commands/`.
#![forbid(unsafe_code)]

mod arguments;
mod commands;
mod failure;
mod interrupt;
mod model_arguments;
mod output;
mod progress;
mod sampling_arguments;
mod version;

// Without this line no architecture is linked in.
use menagerie_all as _;

use arguments::{Arguments, Command};
use clap::Parser;
use failure::Failure;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
        .with_writer(std::io::stderr)
        .init();
    menagerie::kernels::keep_large_buffers();
    // Without it a model file that shrinks while it is mapped would end the process without a word.
    if let Err(error) = menagerie::gguf::install_fault_guard() {
        eprintln!("note: {error}");
    }
    match run(arguments.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::OutputClosed) => ExitCode::SUCCESS,
        Err(Failure::Usage(message)) => {
            eprintln!("error: {message}");
            ExitCode::from(2)
        }
        Err(Failure::Failed(message)) => {
            eprintln!("{}", failure::with_prefix(&message));
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::List(command) => command.run(),
        Command::Show(command) => command.run(),
        Command::Check(command) => command.run(),
        Command::Run(command) => command.run(),
        Command::Chat(command) => command.run(),
        Command::Tokenize(command) => command.run(),
        Command::Render(command) => command.run(),
        Command::Logits(command) => command.run(),
        Command::Bench(command) => command.run(),
        Command::Synth(command) => command.run(),
        Command::Pull(command) => command.run(),
        Command::Models(command) => command.run(),
        Command::Doctor(command) => command.run(),
        Command::Completions(command) => command.run(),
    }
}

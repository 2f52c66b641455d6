//! `completions SHELL`.

use crate::arguments::Arguments;
use crate::failure::Failure;
use crate::output;
use clap::{Args, CommandFactory};
use clap_complete::Shell;

/// Write a completion script for a shell
#[derive(Args)]
pub(crate) struct CompletionsCommand {
    /// The shell
    shell: Shell,
}

impl CompletionsCommand {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Arguments::command(), "menagerie", &mut script);
        output::write(&String::from_utf8_lossy(&script))
    }
}

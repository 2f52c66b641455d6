//! `completions SHELL`: writes a completion script.

use crate::commands::{CommandContext, Runnable};
use crate::failure::Failure;
use crate::output;
use clap::{Args, ValueEnum};
use clap_complete::Shell;
use clap_complete::env::Shells;

/// Environment variable with which the scripts ask this program for completions.
pub(crate) const SHELL_VARIABLE: &str = "COMPLETE";

/// Write a completion script for a shell
///
/// The script calls `menagerie` itself, so that the names of models and architectures are up to date. bash: add
/// `source <(menagerie completions bash)` to ~/.bashrc; zsh: the same with zsh in ~/.zshrc; fish: add `menagerie
/// completions fish | source` to ~/.config/fish/config.fish.
#[derive(Args)]
pub(crate) struct CompletionsCommand {
    /// The shell
    shell: Shell,
}

impl Runnable for CompletionsCommand {
    fn run(self, _: &CommandContext) -> Result<(), Failure> {
        let name =
            self.shell.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
        let shells = Shells::builtins();
        let shell = shells
            .completer(&name)
            .ok_or_else(|| Failure::Usage(format!("completions are not supported for {name}")))?;
        let mut script = Vec::new();
        shell.write_registration(SHELL_VARIABLE, "menagerie", "menagerie", "menagerie", &mut script)?;
        output::data(&String::from_utf8_lossy(&script))
    }

    fn uses_plugins(&self) -> bool {
        false
    }
}

//! `completions SHELL`.

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
/// The script asks `menagerie` itself, so that names of models and architectures are those of the moment. bash:
/// `source <(menagerie completions bash)` in ~/.bashrc; zsh: the same in ~/.zshrc; fish: `menagerie completions fish |
/// source` in ~/.config/fish/config.fish.
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
            .ok_or_else(|| Failure::Usage(format!("there are no completions for {name}")))?;
        let mut script = Vec::new();
        shell.write_registration(SHELL_VARIABLE, "menagerie", "menagerie", "menagerie", &mut script)?;
        output::data(&String::from_utf8_lossy(&script))
    }

    fn uses_plugins(&self) -> bool {
        false
    }
}

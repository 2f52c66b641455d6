//! The commands, as clap sees them.

use crate::commands::{
    bench::BenchCommand, chat::ChatCommand, check::CheckCommand, completions::CompletionsCommand,
    doctor::DoctorCommand, list::ListCommand, logits::LogitsCommand, models::ModelsCommand,
    pull::PullCommand, render::RenderCommand, run::RunCommand, show::ShowCommand, synth::SynthCommand,
    tokenize::TokenizeCommand,
};
use crate::version;
use clap::{Parser, Subcommand};

/// Runs language models whose architecture is data.
///
/// A MODEL is a .gguf file, `smollm2`, or a repository of the hub: org/repo, org/repo:QUANT, org/repo@revision,
/// hf:org/repo/file.gguf. An architecture that is not built in is a TOML file in a spec folder: see `list --help`.
#[derive(Parser)]
#[command(name = "menagerie", version = version::short(), long_version = version::long(), max_term_width = 110)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    List(ListCommand),
    Show(ShowCommand),
    Check(CheckCommand),
    Run(RunCommand),
    Chat(ChatCommand),
    Tokenize(TokenizeCommand),
    Render(RenderCommand),
    Logits(LogitsCommand),
    Bench(BenchCommand),
    Synth(SynthCommand),
    Pull(PullCommand),
    Models(ModelsCommand),
    Doctor(DoctorCommand),
    Completions(CompletionsCommand),
}

#[cfg(test)]
mod tests {
    use super::Arguments;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_sound() {
        Arguments::command().debug_assert();
    }
}

//! [`Arguments`]: the definition of the command line for clap.

use super::option_defaults;
use crate::arguments::plugins::PluginArguments;
use crate::commands::Command;
use crate::config_file::ConfigFile;
use crate::failure::Failure;
use crate::version;
use clap::{ColorChoice, CommandFactory, Parser};

const AFTER_HELP: &str = "\
You can set your own defaults for the options under a heading (Model, Generation, Sampling, Chat, Stages, \
Architectures, Plugins, Display): in environment variables (MENAGERIE_TOP_K sets --top-k), or in the file \
menagerie/config.toml in $XDG_CONFIG_HOME or ~/.config (MENAGERIE_CONFIG names another file):

  threads = 4                # for every command that has the option
  [chat]
  temp = 0.6                 # for one command

Environment: MENAGERIE_CONFIG, MENAGERIE_SPEC_DIR (spec folders), MENAGERIE_PLUGIN_DIR (plugin folders), \
MENAGERIE_ISA (kernels to use: see `doctor`), NO_COLOR, RUST_LOG (debug, or target=level).

Exit codes: 0 success, 1 failure, 2 invalid arguments, 130 interrupted.";

/// Run language models whose architecture is data
///
/// A MODEL is a .gguf file, a folder with config.json and .safetensors files, a short name such as `smollm2`, a
/// Hugging Face repository (org/repo, org/repo:QUANT, org/repo@revision, hf:org/repo/file.gguf), or a recipe
/// (NAME.recipe.toml, or the name of a recipe in a spec folder). To add an architecture, write a TOML file and put it
/// into a spec folder: see `list --help`.
#[derive(Parser)]
#[command(
    name = "menagerie",
    version = version::short(),
    long_version = version::long(),
    max_term_width = 110,
    args_override_self = true,
    after_long_help = AFTER_HELP,
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
    /// When to use color
    #[arg(
        long,
        hide_short_help = true,
        global = true,
        value_name = "WHEN",
        default_value = "auto",
        help_heading = "Display"
    )]
    pub(crate) color: ColorChoice,
    #[command(flatten)]
    pub(crate) plugins: PluginArguments,
}

/// The definition with the defaults of the environment, and without those of a configuration file.
pub(crate) fn definition() -> Result<clap::Command, Failure> {
    command(&ConfigFile::default())
}

/// The definition with the defaults of the environment and of a configuration file.
pub(crate) fn command(file: &ConfigFile) -> Result<clap::Command, Failure> {
    option_defaults::apply(naming_long_help(without_model(Arguments::command())), file)
}

/// Lets `serve` do without MODEL: it can open models of a folder.
fn without_model(command: clap::Command) -> clap::Command {
    // `mut_arg` would move it behind the other arguments.
    let optional = |arg: clap::Arg| match arg.get_id() == "model" {
        true => arg.required(false).default_value("").hide_default_value(true),
        false => arg,
    };
    match cfg!(feature = "serve") {
        true => command.mut_subcommand("serve", |serve| serve.mut_args(optional)),
        false => command,
    }
}

/// Adds a last line to `-h`, which shows only the most used options: `--help` shows all of them.
fn naming_long_help(command: clap::Command) -> clap::Command {
    let long = command.get_after_long_help().cloned().unwrap_or_default();
    command.after_help("--help lists all options").after_long_help(long).mut_subcommands(naming_long_help)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_sound() {
        definition().unwrap().debug_assert();
    }
}

//! [`Arguments`]: the definition of the command line for clap.

use super::option_defaults;
use crate::arguments::plugins::PluginArguments;
use crate::commands::Command;
use crate::config_file::ConfigFile;
use crate::failure::Failure;
use crate::version;
use clap::{ColorChoice, CommandFactory, Parser};

const AFTER_HELP: &str = "\
Options under a heading (Model, Generation, Sampling, Chat, Architectures, Plugins, Display) have defaults of your own:
in the environment (--top-k is MENAGERIE_TOP_K) and in menagerie/config.toml of the configuration folder
($XDG_CONFIG_HOME or ~/.config; MENAGERIE_CONFIG names another file):

  threads = 4                # for every command that has the option
  [chat]
  temp = 0.6                 # for one command

Environment: MENAGERIE_CONFIG, MENAGERIE_SPEC_DIR (spec folders), MENAGERIE_PLUGIN_DIR, MENAGERIE_ISA (kernels to use: see `doctor`),
NO_COLOR, RUST_LOG (debug, or target=level). Exit codes: 0, 1 failed, 2 wrong arguments, 130 interrupted.";

/// Runs language models whose architecture is data.
///
/// A MODEL is a .gguf file, a folder with config.json and .safetensors files, a listed name such as `smollm2`, or a repository of the hub: org/repo, org/repo:QUANT,
/// org/repo@revision, hf:org/repo/file.gguf; or a recipe, NAME.recipe.toml, or the name of one in a spec folder. An architecture that is not built in is a TOML file in a spec folder: see
/// `list --help`.
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
    /// When to color
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
    option_defaults::apply(naming_long_help(Arguments::command()), file)
}

/// `-h` shows the options that most people use: its last line says where the others are.
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

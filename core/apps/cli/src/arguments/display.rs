//! Arguments of the commands that print answers.

use clap::{Args, ValueEnum};

/// The destination of a model's reasoning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Reasoning {
    /// Standard error
    #[default]
    Stderr,
    /// Standard output, between markers
    Stdout,
    /// Nowhere
    Hide,
}

/// How answers are printed.
#[derive(Args, Clone, Copy, Debug, Default)]
pub(crate) struct DisplayArguments {
    /// Where to print a model's reasoning (never part of the text of --json)
    #[arg(long, value_enum, value_name = "WHERE", default_value = "stderr", help_heading = "Display")]
    pub(crate) reasoning: Reasoning,
    /// Do not save the input history of conversations
    #[arg(long, hide_short_help = true, help_heading = "Chat")]
    pub(crate) no_history: bool,
}

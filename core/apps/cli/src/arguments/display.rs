//! Arguments of every command that shows answers.

use clap::{Args, ValueEnum};

/// Where reasoning goes.
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

/// How answers are shown.
#[derive(Args, Clone, Copy, Debug, Default)]
pub(crate) struct DisplayArguments {
    /// Where a model's reasoning goes (never into --json's text)
    #[arg(long, value_enum, value_name = "WHERE", default_value = "stderr", help_heading = "Display")]
    pub(crate) reasoning: Reasoning,
    /// Do not keep what is typed in a conversation for the next time
    #[arg(long, hide_short_help = true, help_heading = "Chat")]
    pub(crate) no_history: bool,
}

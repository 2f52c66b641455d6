//! Colors, controlled by `--color` and the terminal.

use anstyle::{AnsiColor, Style};
use clap::ColorChoice;
use std::io::IsTerminal;
use std::sync::OnceLock;

pub(crate) const ERROR: Style = AnsiColor::Red.on_default().bold();
pub(crate) const NOTE: Style = AnsiColor::Yellow.on_default().bold();
pub(crate) const HELP: Style = AnsiColor::Cyan.on_default().bold();
pub(crate) const PLACE: Style = AnsiColor::BrightBlue.on_default().bold();
pub(crate) const DIM: Style = Style::new().dimmed();

static CHOICE: OnceLock<ColorChoice> = OnceLock::new();

/// An output stream of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutputStream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

impl OutputStream {
    /// Whether it is a terminal.
    pub(crate) fn is_terminal(self) -> bool {
        match self {
            Self::Out => std::io::stdout().is_terminal(),
            Self::Err => std::io::stderr().is_terminal(),
        }
    }

    /// Number of columns of the terminal; `None` if it is not a terminal or its width is unknown.
    pub(crate) fn columns(self) -> Option<usize> {
        if !self.is_terminal() {
            return None;
        }
        let size = match self {
            Self::Out => terminal_size::terminal_size_of(std::io::stdout()),
            Self::Err => terminal_size::terminal_size_of(std::io::stderr()),
        };
        size.map(|(terminal_size::Width(columns), _)| usize::from(columns)).filter(|&columns| columns > 0)
    }

    /// Whether to use colors: as `--color` says, by default on a terminal that is not dumb and without NO_COLOR.
    pub(crate) fn is_colored(self) -> bool {
        let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        match CHOICE.get().copied().unwrap_or(ColorChoice::Auto) {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => {
                self.is_terminal()
                    && !set("NO_COLOR")
                    && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
            }
        }
    }
}

/// Sets the value of `--color`; only the first call has an effect.
pub(crate) fn choose(choice: ColorChoice) {
    CHOICE.get_or_init(|| choice);
}

/// The text in a style, or unchanged without colors.
pub(crate) fn paint(text: &str, style: Style, colored: bool) -> String {
    if colored && !text.is_empty() { format!("{style}{text}{style:#}") } else { text.to_owned() }
}

//! The terminal: colors, escaping, errors and notes on standard error, progress bars.

pub(crate) mod echo;
pub(crate) mod escape;
pub(crate) mod open_line;
pub(crate) mod progress;
pub(crate) mod report;
pub(crate) mod style;
pub(crate) mod word_wrap;
